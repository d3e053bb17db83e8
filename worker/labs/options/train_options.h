// The command line of `train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/models/registry.h"

namespace hvdrun {

struct TrainOptions {
  std::string model = "mnist-cnn";
  // These three are the model's own where the command line says nothing.
  DataRequest data;
  ModelShape shape;
  Recipe recipe;
  std::string dtype = "fp32";
  std::string data_format = "NCHW";
  std::int64_t max_steps = 0;      // 0: no limit
  bool elastic = false;            // goes on when ranks are lost
  bool keep_local_batch = false;   // then; else the batch of all ranks
  std::int64_t commit_steps = 10;  // between two commits of it
  std::string device = "auto";
  bool synthetic = false;  // no files are read
  std::string embedding;   // a file of word vectors; empty: they begin as random numbers
  bool freeze_embedding = false;
  bool sparse_embedding = false;
  bool sync_batch_norm = false;
  bool augment = true;
  bool use_adasum = false;
  bool fp16_allreduce = false;
  std::string checkpoint;  // empty: none is written
  std::string checkpoint_dir;
  std::int64_t keep = 5;  // checkpoints in checkpoint_dir
  std::string resume;
  std::string plot;
  std::string report;
  std::string loss_log;
  std::string metrics_file;
  std::string log_dir;
  std::string on_nan;  // empty: on_nan() in run_health.h
  bool trace_nan = false;
  std::string cudnn_search = "auto";
  bool describe = false;  // print the model instead of training it
};

inline const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = {"auto", "cpu", "cuda"};
  return names;
}

struct ParsedOptions {
  std::optional<TrainOptions> options;  // nothing: print `text` and leave with `exit_code`
  int exit_code = 0;
  std::string text;
};

ParsedOptions parse_train_options(int argc, const char* const* argv);

}  // namespace hvdrun
