// train: the lab models, on one rank or many. worker/labs/options.cpp has the command line.
#include "worker/labs/options.h"
#include "worker/labs/training_run.h"

int main(int argc, char** argv) {
  const hvdrun::ParsedOptions parsed = hvdrun::parse_train_options(argc, argv);
  return parsed.options ? hvdrun::run_training(*parsed.options) : hvdrun::report_options(parsed);
}
