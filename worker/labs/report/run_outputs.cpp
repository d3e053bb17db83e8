#include "worker/labs/report/run_outputs.h"

#include <cstdio>
#include <utility>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/file_formats.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/checkpoint/checkpoint_folder.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/report/curve_plot.h"

namespace hvdrun {

void RunOutputs::open(bool go_on) {
  std::string error;
  if (hvd::rank() == 0 && !std::exchange(opened_, true)) {
    const bool is_later = go_on;
    go_on = go_on || !options_.resume.empty();
    const Begin begin = go_on ? Begin::at_end : Begin::anew;
    if (wants_losses()) loss_log_.open(options_.loss_log, begin, error);
    if (error.empty() && !options_.checkpoint.empty()) can_write_file(options_.checkpoint, error);
    if (error.empty()) records_.open(options_.metrics_file, options_.log_dir, go_on, error);
    if (error.empty() && !options_.checkpoint_dir.empty())
      CheckpointFolder(options_.checkpoint_dir, options_.keep)
          .prepare(is_later ? options_.checkpoint_dir : options_.resume, start_place().job, error);
    if (error.empty() && wants_report()) can_write_file(options_.report, error);
    if (error.empty()) write_plot(error);
  }
  agree(error, exit_cannot_create);
}

void RunOutputs::add_loss(double mean, bool later) {
  if (!loss_log_.is_open()) return;
  char line[40];
  std::snprintf(line, sizeof(line), "%.9g\n", mean);
  if (later)
    waiting_ += line;
  else
    loss_log_.add(line);
}

void RunOutputs::write_losses() {
  std::string later;  // close() says it
  if (loss_log_.is_open()) loss_log_.write(std::exchange(waiting_, {}), later);
}

void RunOutputs::add_epoch(const EpochResult& result) {
  std::string error;
  history_.push_back(result);  // another rank may become 0
  if (hvd::rank() == 0) {
    if (records_.add(result, error)) write_plot(error);
  }
  agree(error, exit_cannot_create);
}

bool RunOutputs::write_plot(std::string& error) const {
  if (options_.plot.empty()) return true;
  Panel loss{"loss", {{"train", {}}, {"validation", {}}}};
  Panel accuracy{"accuracy (%)", {{"train", {}}, {"validation", {}}}, 0, 100};
  for (const EpochResult& result : history_) {
    const auto epoch = static_cast<double>(result.epoch);
    loss.curves[0].points.emplace_back(epoch, result.train.loss);
    accuracy.curves[0].points.emplace_back(epoch, 100 * result.train.accuracy);
    if (!result.validation) continue;
    loss.curves[1].points.emplace_back(epoch, result.validation->loss);
    accuracy.curves[1].points.emplace_back(epoch, 100 * result.validation->accuracy);
  }
  const std::string ranks = std::to_string(hvd::size()) + (hvd::size() == 1 ? " rank" : " ranks");
  return write_whole_file(
      options_.plot, svg_plot(options_.model + ", " + ranks, "epoch", {loss, accuracy}), error);
}

void RunOutputs::save(std::int64_t epoch, const std::function<std::string()>& encode) const {
  if (options_.checkpoint.empty() && options_.checkpoint_dir.empty()) return;
  std::string error;
  if (hvd::rank() == 0) {
    const std::string bytes = encode();
    if (!bytes.empty() && !options_.checkpoint.empty())
      write_whole_file(options_.checkpoint, bytes, error);
    if (!bytes.empty() && error.empty() && !options_.checkpoint_dir.empty())
      CheckpointFolder(options_.checkpoint_dir, options_.keep).write(epoch, bytes, error);
  }
  agree(error, exit_cannot_create);
}

void RunOutputs::write_report(const ConfusionMatrix& matrix,
                              const std::vector<std::string>& names) const {
  if (!wants_report()) return;
  std::string error;
  if (hvd::rank() == 0) {
    const char separator = extension_of(options_.report) == "tsv" ? '\t' : ',';
    write_whole_file(options_.report, report_table(matrix, names, separator), error);
  }
  agree(error, exit_cannot_create);
}

void RunOutputs::close() {
  std::string error;
  if (loss_log_.is_open()) loss_log_.close(error);
  agree(error, exit_cannot_create);
}

}  // namespace hvdrun
