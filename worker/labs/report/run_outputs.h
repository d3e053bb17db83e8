// The files that a run leaves: losses, metrics, events, plot, report, checkpoints. Rank 0 writes
// them; what cannot be written ends the run on all ranks, so all functions are collectives.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/labs/data/files/output_file.h"
#include "worker/labs/options/train_options.h"
#include "worker/labs/report/classification_report.h"
#include "worker/labs/report/epoch_records.h"

namespace hvdrun {

class RunOutputs {
 public:
  // `options` outlives it.
  explicit RunOutputs(const TrainOptions& options) : options_(options) {}

  // Says at once what could only fail at the end. `go_on`: files of this job are there already, as
  // in an elastic one that has another rank 0 now, or in one that has started again. Nothing where
  // they are open.
  void open(bool go_on = false);
  bool wants_losses() const { return !options_.loss_log.empty(); }
  bool wants_report() const { return !options_.report.empty(); }
  bool wants_validation() const { return !options_.plot.empty(); }
  // The mean over the ranks. With `later` it waits for write_losses(), or is dropped by
  // drop_losses().
  void add_loss(double mean, bool later = false);
  void write_losses();
  void drop_losses() { waiting_.clear(); }
  void add_epoch(const EpochResult& result);
  // `encode` gives the bytes of a checkpoint, or none; rank 0 calls it, when one is wanted.
  void save(std::int64_t epoch, const std::function<std::string()>& encode) const;
  void write_report(const ConfusionMatrix& matrix, const std::vector<std::string>& names) const;
  void close();

 private:
  bool write_plot(std::string& error) const;

  const TrainOptions& options_;
  OutputFile loss_log_;
  std::string waiting_;  // losses of steps that may be repeated
  bool opened_ = false;
  EpochRecords records_;
  std::vector<EpochResult> history_;  // of this run
};

}  // namespace hvdrun
