#include "worker/hvd/client/worker_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include <hvd/hvd.h>

#include "common/base/limits.h"
#include "common/base/seconds.h"

namespace hvdrun {
namespace {

[[noreturn]] void broken(const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   "the environment set by hvdrun is damaged: " + what +
                       "; start the program with hvdrun, and do not change HVD_* variables");
}

std::optional<std::uint32_t> parse_number(const std::string& text) {
  std::uint32_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

std::string required(const EnvironmentLookup& lookup, const char* name) {
  std::optional<std::string> value = lookup(name);
  if (!value) broken(std::string(name) + " is missing");
  return *std::move(value);
}

std::uint32_t required_number(const EnvironmentLookup& lookup, const char* name) {
  const std::string text = required(lookup, name);
  const std::optional<std::uint32_t> value = parse_number(text);
  if (!value) broken(std::string(name) + "='" + text + "' is not a number");
  return *value;
}

void check_place(const char* rank_name, std::uint32_t rank, const char* size_name,
                 std::uint32_t size) {
  if (size == 0 || size > limits::kMaxRanks)
    broken(std::string(size_name) + "=" + std::to_string(size) + " is out of range");
  if (rank >= size) {
    broken(std::string(rank_name) + "=" + std::to_string(rank) + " does not fit " + size_name +
           "=" + std::to_string(size));
  }
}

}  // namespace

std::optional<std::string> process_environment(const char* name) {
  // Read once, in hvd::init(); a program that calls setenv() at that moment is wrong anyway.
  const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<WorkerEnvironment> read_worker_environment(const EnvironmentLookup& lookup) {
  if (!lookup("HVD_AGENT") && !lookup("HVD_RANK")) return std::nullopt;
  WorkerEnvironment env;
  env.agent = required(lookup, "HVD_AGENT");
  if (env.agent.empty() || env.agent == "@") broken("HVD_AGENT='" + env.agent + "' names nothing");
  env.job_id = required(lookup, "HVD_JOB_ID");
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (env.job_id.size() != 32 || !std::all_of(env.job_id.begin(), env.job_id.end(), is_hex))
    broken("HVD_JOB_ID='" + env.job_id + "' is not 32 hexadecimal digits");
  env.epoch = required_number(lookup, "HVD_EPOCH");
  env.is_late = lookup("HVD_LATE").has_value();
  env.rank = required_number(lookup, "HVD_RANK");
  env.size = required_number(lookup, "HVD_SIZE");
  env.local_rank = required_number(lookup, "HVD_LOCAL_RANK");
  env.local_size = required_number(lookup, "HVD_LOCAL_SIZE");
  env.cross_rank = required_number(lookup, "HVD_CROSS_RANK");
  env.cross_size = required_number(lookup, "HVD_CROSS_SIZE");
  check_place("HVD_RANK", env.rank, "HVD_SIZE", env.size);
  check_place("HVD_LOCAL_RANK", env.local_rank, "HVD_LOCAL_SIZE", env.local_size);
  check_place("HVD_CROSS_RANK", env.cross_rank, "HVD_CROSS_SIZE", env.cross_size);
  return env;
}

std::optional<std::string> foreign_launcher_warning(const EnvironmentLookup& lookup) {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "WORLD_SIZE", "HOROVOD_SIZE"}) {
    // sbatch and salloc set SLURM_NTASKS for the script too; only srun's tasks have a process id.
    if (std::string(name) == "SLURM_NTASKS" && !lookup("SLURM_PROCID")) continue;
    const std::optional<std::string> text = lookup(name);
    if (!text) continue;
    const std::optional<std::uint32_t> size = parse_number(*text);
    if (!size || *size <= 1) continue;
    return "hvd: " + std::string(name) + "=" + *text +
           " in the environment, but this process was not started by hvdrun: it is rank 0 of 1. "
           "Start it with: hvdrun -np " +
           *text + " ...";
  }
  return std::nullopt;
}

std::chrono::milliseconds read_timeout(const EnvironmentLookup& lookup, const char* name,
                                       std::chrono::milliseconds fallback) {
  const std::optional<std::string> text = lookup(name);
  if (!text) return fallback;
  if (const auto time = read_seconds(*text)) return *time;
  throw hvd::Error(hvd::ErrorCode::invalid_argument,
                   std::string(name) + "='" + *text +
                       "' is not a time: write seconds greater than 0, such as 30 or 0.5");
}

std::uint64_t read_fusion_threshold(const EnvironmentLookup& lookup, std::uint64_t fallback) {
  for (const char* const name : {"HVD_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD"}) {
    const std::optional<std::string> text = lookup(name);
    if (!text) continue;
    std::uint64_t bytes = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, bytes);
    if (error != std::errc() || stop != end)
      throw hvd::Error(hvd::ErrorCode::invalid_argument,
                       std::string(name) + "='" + *text +
                           "' is not a size: write bytes, such as 67108864, or 0 for none");
    return bytes;
  }
  return fallback;
}

std::uint32_t compute_threads(const EnvironmentLookup& lookup) {
  const std::optional<std::string> text = lookup("OMP_NUM_THREADS");
  if (!text) return 1;
  // OpenMP takes a list, a number for each level of nesting.
  return std::max(1U, parse_number(text->substr(0, text->find(','))).value_or(1));
}

}  // namespace hvdrun
