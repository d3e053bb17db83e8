#include "cli/options/mpirun_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_values.h"
#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr const char* kWholeHost =
    "hvdrun counts the ranks of a whole host: write -N NUMBER, or ppr:NUMBER:node";

// Parts of a host: a rank in one of them or another is the same rank of the same host.
constexpr auto kParts = std::to_array<std::string_view>(
    {"hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "socket", "package", "board"});

bool is_part_of_host(std::string_view word) {
  return std::find(kParts.begin(), kParts.end(), word) != kParts.end();
}

std::string in_lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

std::vector<std::string> words_between(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

void set_per_host(Options& options, const OptionUse& use, std::uint32_t ranks) {
  std::string where = use.where;
  if (use.row->value != nullptr) where += " " + use.values.back();
  // A variable is beaten by the command line, and one spelling by its own last use.
  const bool beaten = options.per_host_where.starts_with("HVDRUN_") ||
                      options.per_host_where.starts_with(use.where + " ");
  if (options.per_host && *options.per_host != ranks && !beaten)
    throw UsageError(options.per_host_where + " and " + where +
                     ": each says how many ranks a host gets (as -N of mpirun does, not of srun); "
                     "leave one out");
  options.per_host = ranks;
  options.per_host_where = std::move(where);
}

void warn_unbound(Options& options, const OptionUse& use, const std::string& what) {
  std::string text = use.where;
  for (const std::string& value : use.values) text += " " + printable(value);
  options.warnings.push_back(text + ": ranks are not bound to " + what +
                             "; a line of the program's can do it, as in sh -c 'exec taskset -c "
                             "$HVD_LOCAL_RANK ./train'");
}

// Behind the colons of --map-by: what may be done, and what it says.
void take_modifier(Options& options, const OptionUse& use, const std::string& word) {
  if (word == "oversubscribe" || word == "nooversubscribe") {
    options.oversubscribe = word == "oversubscribe";
  } else if (word.starts_with("pe=")) {
    warn_unbound(options, use, "several cores");
  } else if (word == "span") {
    throw bad_value(use, kHostsInTurn);
  } else if (word != "inherit" && word != "noinherit" && word != "hwtcpus" && word != "corecpus") {
    throw bad_value(
        use, quoted_word(word) + " is nothing that hvdrun can do; write slot, or ppr:NUMBER:node");
  }
}

// ppr:NUMBER:node
void take_per_resource(Options& options, const OptionUse& use,
                       const std::vector<std::string>& words) {
  std::uint32_t ranks = 0;
  const std::string number = words.size() > 1 ? words[1] : "";
  const auto [end, ec] = std::from_chars(number.data(), number.data() + number.size(), ranks);
  if (words.size() < 3 || ec != std::errc() || end != number.data() + number.size() || ranks == 0 ||
      ranks > limits::kMaxSlotsPerHost)
    throw bad_value(use, "write ppr:NUMBER:node, as in ppr:4:node, or -N 4");
  if (words[2] != "node") throw bad_value(use, kWholeHost);
  set_per_host(options, use, ranks);
}

struct MpiSetting {
  std::string_view name;
  const char* word;  // hvdrun's
};

// Settings of mpirun itself rather than of MPI.
constexpr auto kMpirunSettings = std::to_array<MpiSetting>({
    {"plm_rsh_agent", "--ssh"},
    {"plm_rsh_args", "--ssh-args"},
    {"btl_tcp_if_include", "--network-interfaces"},
    {"btl_tcp_if_exclude", "--network-interfaces, with the others"},
    {"oob_tcp_if_include", "--network-interfaces"},
    {"oob_tcp_if_exclude", "--network-interfaces, with the others"},
    {"oob_tcp_dynamic_ipv4_ports", "--port-range"},
    {"orte_tag_output", "--tag-output"},
    {"orte_timestamp_output", "--prefix-output-with-timestamp"},
    {"orte_output_filename", "--output-filename"},
    {"orte_default_hostfile", "--hostfile"},
    {"mca_base_env_list", "-x"},
    {"orte_startup_timeout", "--start-timeout"},
});

}  // namespace

void take_ranks_per_host(Options& options, const OptionUse& use) {
  const std::string& value = use.value();
  if (value == "auto" || value == "gpu" || value == "cpu")
    throw bad_value(use,
                    "a number is needed; unless given, this machine gets a rank for each GPU or "
                    "core, and other hosts what -H says");
  set_per_host(options, use,
               static_cast<std::uint32_t>(to_whole(use, 1, limits::kMaxSlotsPerHost)));
}

void take_one_per_host(Options& options, const OptionUse& use) {
  if (use.on) set_per_host(options, use, 1);
}

void take_map_by(Options& options, const OptionUse& use) {
  const std::vector<std::string> words = words_between(in_lower_case(to_text(use)), ':');
  const std::string& what = words.front();
  std::size_t modifiers = 1;
  if (what == "ppr") {
    take_per_resource(options, use, words);
    modifiers = 3;
  } else if (what == "node") {
    throw bad_value(use, kHostsInTurn);
  } else if (is_part_of_host(what)) {
    warn_unbound(options, use, "a part of their host");
  } else if (!what.empty() && what != "slot") {
    throw bad_value(use,
                    "hvdrun fills the hosts in the order of -H or --hostfile; write slot, or "
                    "ppr:NUMBER:node");
  }
  for (std::size_t i = modifiers; i < words.size(); ++i)
    for (const std::string& word : words_between(words[i], ',')) take_modifier(options, use, word);
}

void take_rank_by(Options& options, const OptionUse& use) {
  const std::vector<std::string> words = words_between(in_lower_case(to_text(use)), ':');
  const std::string& what = words.front();
  if (what == "node" || std::find(words.begin(), words.end(), "span") != words.end())
    throw bad_value(use, kHostsInTurn);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != "fill" && (i > 0 || (what != "slot" && !is_part_of_host(what))))
      throw bad_value(use, "the ranks of a host follow each other; write slot");
  if (is_part_of_host(what)) warn_unbound(options, use, "a part of their host");
}

void take_bind_to(Options& options, const OptionUse& use) {
  const std::string what = in_lower_case(to_text(use));
  if (what != "none") warn_unbound(options, use, "cores");
}

void take_bindings_report(Options& options, const OptionUse& use) {
  if (use.on) warn_unbound(options, use, "cores, so there is nothing to report");
}

void take_mca(Options& options, const OptionUse& use) {
  const std::string& name = use.values.front();
  const std::string& value = use.values.back();
  const OptionUse inner{use.row, use.where + " " + name, {value}, true};
  if (name == "rmaps_base_mapping_policy") return take_map_by(options, inner);
  if (name == "rmaps_base_ranking_policy") return take_rank_by(options, inner);
  if (name == "hwloc_base_binding_policy") return take_bind_to(options, inner);
  if (name == "rmaps_ppr_n_pernode" || name == "rmaps_base_n_pernode")
    return take_ranks_per_host(options, inner);
  const bool on = value != "0" && value != "false";
  if (name == "rmaps_ppr_pernode" || name == "rmaps_base_pernode")
    return take_one_per_host(options, {inner.row, inner.where, inner.values, on});
  if ((name == "rmaps_base_bynode" && on) ||
      (name == "rmaps_base_schedule_policy" && value == "node"))
    throw bad_value(inner, kHostsInTurn);
  const std::string text = use.where + " " + printable(name) + " " + printable(value) + ": ";
  if (name == "rmaps_base_oversubscribe") {
    options.oversubscribe = on;
    return;
  }
  const auto* const found =
      std::find_if(kMpirunSettings.begin(), kMpirunSettings.end(),
                   [&](const MpiSetting& setting) { return setting.name == name; });
  if (found != kMpirunSettings.end()) {
    options.warnings.push_back(
        text + "a setting of mpirun, which hvdrun does not read; its word is " + found->word);
    return;
  }
  // Where ranks go and what they are bound to is not MPI's.
  if (name.starts_with("rmaps_") || name.starts_with("hwloc_base_") || name.starts_with("ras_")) {
    options.warnings.push_back(text +
                               "a setting of mpirun, which hvdrun does not read; hvdrun fills the "
                               "hosts in the order of -H or --hostfile, and binds no rank");
    return;
  }
  options.notes.push_back(text + use.row->detail);
}

void refuse_mpi_args(Options&, const OptionUse& use) {
  const std::string& words = use.value();
  throw UsageError("option '" + use.where + "': " + use.row->detail +
                   (words.empty() ? "" : ": hvdrun " + printable(words)));
}

}  // namespace hvdrun
