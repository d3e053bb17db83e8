#include "cli/options/config_file.h"
#include "cli/options/options.h"
#include "tests/catch.h"
#include "tests/unit/cli/text_file.h"

namespace hvdrun {
namespace {

std::string value_of(const Options& options, const std::string& name) {
  std::string value = "(unset)";
  for (const auto& [known, text] : options.variables)
    if (known == name) value = text;
  return value;
}

constexpr const char* kAllKeys = R"(# every key
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 10
  cache_capacity: 2048
  hierarchical_allreduce: True
  hierarchical_allgather: true
autotune:
  enabled: yes
  log_file: horovod_autotune_log.txt
  warmup_samples: 5
  steps_per_sample: 20
  bayes_opt_max_samples: 50
  gaussian_process_noise: 0.9
timeline:
  filename: horovod_timeline.json
  mark_cycles: true
stall_check:
  enabled: false
  warning_time_seconds: 120
  shutdown_time_seconds: 240
library_options:
  mpi_threads_disable: true
  num_nccl_streams: 2
  thread_affinity: 1
  gloo_timeout_seconds: 60
logging:
  level: INFO
  with_timestamp: false
)";

TEST_CASE("the keys of Horovod's configuration file are its options", "[config]") {
  const TextFile file(kAllKeys);
  Options options = parse_options({"--config-file", file.path(), "x"});
  CHECK(value_of(options, "HOROVOD_FUSION_THRESHOLD") == "33554432");
  CHECK(value_of(options, "HOROVOD_CYCLE_TIME") == "10");
  CHECK(value_of(options, "HOROVOD_HIERARCHICAL_ALLREDUCE") == "1");
  CHECK(value_of(options, "HOROVOD_AUTOTUNE") == "1");
  CHECK(value_of(options, "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE") == "0.9");
  CHECK(value_of(options, "HOROVOD_TIMELINE") == "horovod_timeline.json");
  CHECK(value_of(options, "HOROVOD_STALL_CHECK_DISABLE") == "1");
  CHECK(value_of(options, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS") == "240");
  CHECK(value_of(options, "HOROVOD_LOG_LEVEL") == "INFO");
  CHECK(value_of(options, "HOROVOD_LOG_HIDE_TIME") == "1");

  // Wherever the file is named, options and variables beat it.
  options = parse_options(
      {"--fusion-threshold-mb", "1", "--stall-check", "--config-file", file.path(), "x"},
      {"HVDRUN_CYCLE_TIME_MS=7"});
  CHECK(value_of(options, "HOROVOD_FUSION_THRESHOLD") == "1048576");
  CHECK(value_of(options, "HOROVOD_STALL_CHECK_DISABLE") == "0");
  CHECK(value_of(options, "HOROVOD_CYCLE_TIME") == "7");
  CHECK(value_of(parse_options({"x"}, {"HVDRUN_CONFIG_FILE=" + file.path()}),
                 "HOROVOD_CYCLE_TIME") == "10");
}

TEST_CASE("files with nothing in them set nothing", "[config]") {
  for (const char* text : {"", "# nothing\n", "params:\n", "params:\n  cycle_time_ms:\n"})
    CHECK(parse_config(text, "f").empty());
}

TEST_CASE("a bad configuration file gets one line with file and line", "[config]") {
  const auto [text, part] = GENERATE(table<std::string, std::string>({
      {"params:\n  fusion_threshold: 1\n", "2: unknown key 'fusion_threshold' in 'params'"},
      {"param:\n  cycle_time_ms: 1\n", "1: unknown section 'param'"},
      {"params:\n  cycle_time_ms: fast\n", "2: cycle_time_ms 'fast'"},
      {"params:\n  cycle_time_ms: [1]\n", "2: cycle_time_ms: one value"},
      {"stall_check:\n  enabled: perhaps\n", "2: enabled 'perhaps'"},
      {"logging:\n  level: bogus\n", "2: level 'bogus'"},
      {"params: 3\n", "1: params: keys are needed"},
      {"controller: mpi\n", "1: controller: only gloo"},
      {"- a\n- b\n", "1: sections are needed"},
      {"params:\n\t- x: [\n", "not YAML"},
      {"a: b: c\n", "1: not YAML"},
      {"[a, b]: c\n", "1: a name is needed"},
  }));
  CAPTURE(text);
  const TextFile file(text);
  try {
    parse_options({"--config-file", file.path(), "x"});
    FAIL("was accepted");
  } catch (const UsageError& e) {
    const std::string message = e.what();
    INFO(message);
    CHECK(message.find(file.path() + ":") == 0);
    CHECK(message.find(part) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
}

}  // namespace
}  // namespace hvdrun
