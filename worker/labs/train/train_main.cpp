// train: the lab models, on one rank or many. worker/labs/options/train_options.cpp has the command
// line.
#include "worker/labs/base/cpu_kernels.h"
#include "worker/labs/base/kept_memory.h"
#include "worker/labs/options/train_options.h"
#include "worker/labs/train/train_process.h"

int main(int argc, char** argv) {
  hvdrun::keep_freed_memory();
  hvdrun::avoid_wrong_kernels();
  const hvdrun::ParsedOptions parsed = hvdrun::parse_train_options(argc, argv);
  if (!parsed.options) return hvdrun::report_options(parsed);
  return parsed.options->describe ? hvdrun::run_description(*parsed.options)
                                  : hvdrun::run_training(*parsed.options);
}
