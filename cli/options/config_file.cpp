#include "cli/options/config_file.h"

#include <array>
#include <cassert>
#include <string_view>

#include <yaml-cpp/yaml.h>

#include "cli/options/option_values.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

struct KeyRow {
  std::string_view section;
  std::string_view key;
  const char* option;
};

constexpr auto kKeys = std::to_array<KeyRow>({
    {"params", "fusion_threshold_mb", "--fusion-threshold-mb"},
    {"params", "cycle_time_ms", "--cycle-time-ms"},
    {"params", "cache_capacity", "--cache-capacity"},
    {"params", "hierarchical_allreduce", "--hierarchical-allreduce"},
    {"params", "hierarchical_allgather", "--hierarchical-allgather"},
    {"params", "torus_allreduce", "--torus-allreduce"},
    {"autotune", "enabled", "--autotune"},
    {"autotune", "log_file", "--autotune-log-file"},
    {"autotune", "warmup_samples", "--autotune-warmup-samples"},
    {"autotune", "steps_per_sample", "--autotune-steps-per-sample"},
    {"autotune", "bayes_opt_max_samples", "--autotune-bayes-opt-max-samples"},
    {"autotune", "gaussian_process_noise", "--autotune-gaussian-process-noise"},
    {"timeline", "filename", "--timeline-filename"},
    {"timeline", "mark_cycles", "--timeline-mark-cycles"},
    {"stall_check", "enabled", "--stall-check"},
    {"stall_check", "warning_time_seconds", "--stall-check-warning-time-seconds"},
    {"stall_check", "shutdown_time_seconds", "--stall-check-shutdown-time-seconds"},
    {"library_options", "mpi_threads_disable", "--mpi-threads-disable"},
    {"library_options", "num_nccl_streams", "--num-nccl-streams"},
    {"library_options", "thread_affinity", "--thread-affinity"},
    {"library_options", "gloo_timeout_seconds", "--gloo-timeout-seconds"},
    {"logging", "level", "--log-level"},
    {"logging", "with_timestamp", "--log-with-timestamp"},
    {"logging", "hide_timestamp", "--log-hide-timestamp"},
});

std::string at_line(const std::string& file, const YAML::Mark& mark) {
  return printable(file) + ":" + std::to_string(mark.line + 1) + ": ";
}

// The names that are possible where `section` stands; of the sections when it is empty.
std::string known_names(std::string_view section) {
  std::string list = section.empty() ? "controller" : "";
  std::string_view last;
  for (const KeyRow& row : kKeys) {
    if (!section.empty() && row.section != section) continue;
    const std::string_view name = section.empty() ? row.section : row.key;
    if (name == last) continue;
    last = name;
    list.append(list.empty() ? "" : ", ").append(name);
  }
  return list;
}

OptionUse read_value(const YAML::Node& key, const YAML::Node& value, std::string_view section,
                     const std::string& file) {
  const std::string& name = key.Scalar();
  for (const KeyRow& row : kKeys) {
    if (row.section != section || row.key != name) continue;
    const OptionRow* const option = find_option(row.option);
    assert(option != nullptr);
    const std::string where = at_line(file, key.Mark()) + name;
    if (!value.IsScalar()) throw UsageError(where + ": one value is needed, not a list or section");
    return uses_of_text(*option, where, value.Scalar()).front();
  }
  throw UsageError(at_line(file, key.Mark()) + "unknown key " + quoted_word(name) + " in '" +
                   std::string(section) + "'; there are " + known_names(section));
}

// hvdrun has one way to find the ranks; the key is checked and has no effect.
void check_controller(const YAML::Node& key, const YAML::Node& value, const std::string& file) {
  if (value.IsScalar() && value.Scalar() == "gloo") return;
  throw UsageError(at_line(file, key.Mark()) +
                   "controller: only gloo is possible, because hvdrun starts the ranks itself");
}

std::vector<OptionUse> read_sections(const YAML::Node& root, const std::string& file) {
  std::vector<OptionUse> uses;
  if (root.IsNull()) return uses;
  if (!root.IsMap())
    throw UsageError(at_line(file, root.Mark()) + "sections are needed, such as " +
                     known_names({}));
  for (const auto& entry : root) {
    const YAML::Node& key = entry.first;
    const YAML::Node& value = entry.second;
    if (!key.IsScalar()) throw UsageError(at_line(file, key.Mark()) + "a name is needed here");
    const std::string& section = key.Scalar();
    if (section == "controller") {
      check_controller(key, value, file);
      continue;
    }
    if (known_names(section).empty())
      throw UsageError(at_line(file, key.Mark()) + "unknown section " + quoted_word(section) +
                       "; there are " + known_names({}));
    if (value.IsNull()) continue;
    if (!value.IsMap())
      throw UsageError(at_line(file, key.Mark()) + section + ": keys are needed, such as " +
                       known_names(section));
    for (const auto& inner : value) {
      const YAML::Node& name = inner.first;
      const YAML::Node& item = inner.second;
      if (!name.IsScalar()) throw UsageError(at_line(file, name.Mark()) + "a name is needed here");
      if (!item.IsNull()) uses.push_back(read_value(name, item, section, file));
    }
  }
  return uses;
}

}  // namespace

std::vector<OptionUse> parse_config(const std::string& text, const std::string& file) {
  try {
    return read_sections(YAML::Load(text), file);
  } catch (const YAML::Exception& e) {
    throw UsageError(at_line(file, e.mark) + "not YAML: " + printable(e.msg));
  }
}

}  // namespace hvdrun
