#include "worker/labs/train/train_process.h"

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include <hvd/torch.h>

#include "common/base/printable.h"
#include "worker/labs/base/agreement.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/models/registry.h"
#include "worker/labs/report/describe.h"
#include "worker/labs/train/training_run.h"

namespace hvdrun {
namespace {

// Words of a damaged file may be in it.
void complain(const std::string& text) {
  std::fprintf(stderr, "train: %s\n", printable(text, text.size()).c_str());
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Whoever exits first makes the launcher end the others. The one that says why must be heard
// before.
void leave_together() noexcept {
  try {
    hvd::barrier();
  } catch (const std::exception&) {
    // Somebody is gone already.
  }
  hvd::shutdown();
}

}  // namespace

int run_training(const TrainOptions& options) {
  try {
    // Where ranks come and go one that begins prepares itself before.
    if (!options.elastic) hvd::init();
    train_model(options);
  } catch (const Quit& quit) {
    if (*quit.what() != '\0') complain(quit.what());
    // In an elastic job nobody ends the others for it.
    if (options.elastic)
      hvd::shutdown();
    else
      leave_together();
    return quit.exit_code();
  } catch (const DataError& error) {
    complain(error.what());
    hvd::shutdown();
    return exit_no_input;
  } catch (const c10::Error& error) {
    complain(first_line(error.what_without_backtrace()));
    hvd::shutdown();
    return exit_failed;
  } catch (const std::exception& error) {
    complain(first_line(error.what()));
    hvd::shutdown();
    return exit_failed;
  }
  hvd::shutdown();
  return exit_ok;
}

int run_description(const TrainOptions& options) {
  ParsedOptions described{std::nullopt, exit_ok, {}};
  try {
    described.text = describe_model(*find_model(options.model), options.shape, options.recipe,
                                    options.data.image_size);
  } catch (const std::exception& error) {
    complain(first_line(error.what()));  // torch appends a backtrace
    return exit_failed;
  }
  return report_options(described);
}

int report_options(const ParsedOptions& parsed) {
  bool mine = true;
  try {
    hvd::init();
    mine = hvd::rank() == 0;
  } catch (const std::exception&) {
    // Then everybody says it.
  }
  if (mine) {
    std::FILE* out = parsed.exit_code == exit_ok ? stdout : stderr;
    std::fputs(parsed.text.c_str(), out);
    std::fflush(out);
  }
  leave_together();
  return parsed.exit_code;
}

}  // namespace hvdrun
