// The results of each epoch, for other programs: a line of JSON in --metrics-file, an event for
// TensorBoard in --log-dir. Rank 0 writes them. No LibTorch in here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "worker/labs/data/files/output_file.h"
#include "worker/labs/report/score.h"

namespace hvdrun {

struct EpochResult {
  std::int64_t epoch = 0;  // from 1
  std::int64_t steps = 0;  // in all so far
  Score train;
  double seconds = 0;
  double images_per_second = 0;
  double lr = 0;  // of all ranks, at the end
  std::optional<Score> validation;
};

// One object on one line; what is not a number is null.
std::string json_line(const EpochResult& result);

// An event of TensorBoard's: a number with a name (first the mark that every event file begins
// with). `wall_time` in seconds since 1970.
std::string first_event(double wall_time);
std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value);

class EpochRecords {
 public:
  // Empty names: nothing is written. A resumed run goes on in the same metrics file; event files
  // are a new one each time, as TensorBoard wants it. False, and `error` names the file.
  bool open(const std::string& metrics_file, const std::string& log_dir, bool resumed,
            std::string& error);
  // In the file when it returns, so that somebody may look on. False, and `error` names the file.
  bool add(const EpochResult& result, std::string& error);

 private:
  OutputFile metrics_;
  OutputFile events_;
};

}  // namespace hvdrun
