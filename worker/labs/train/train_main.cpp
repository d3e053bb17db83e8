// train: the lab models, on one rank or many. worker/labs/options.cpp has the command line.
#include "worker/labs/kept_memory.h"
#include "worker/labs/options.h"
#include "worker/labs/training_run.h"

int main(int argc, char** argv) {
  hvdrun::keep_freed_memory();
  const hvdrun::ParsedOptions parsed = hvdrun::parse_train_options(argc, argv);
  if (!parsed.options) return hvdrun::report_options(parsed);
  return parsed.options->describe ? hvdrun::run_description(*parsed.options)
                                  : hvdrun::run_training(*parsed.options);
}
