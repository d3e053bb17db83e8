#include "cli/openers/srun/srun_command.h"

#include <algorithm>
#include <array>

namespace hvdrun {
namespace {

// Variables that say which allocation it is, and how Slurm is reached.
constexpr auto kKept = std::to_array<std::string_view>({
    "SLURM_CLUSTERS",
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JOBID",
    "SLURM_JOB_ID",
    "SLURM_JWT",
    "SLURM_WORKING_CLUSTER",
});

bool is_option_of_srun(std::string_view name) {
  const bool of_slurm =
      name.starts_with("SLURM_") || name.starts_with("SLURMD_") || name.starts_with("SRUN_");
  // The options of a site's own plugins are not ours to judge.
  return of_slurm && !name.starts_with("SLURM_SPANK_") &&
         std::find(kKept.begin(), kKept.end(), name) == kKept.end();
}

std::string component_option(std::uint32_t component) {
  return "--het-group=" + std::to_string(component);
}

}  // namespace

// --overlap, --mem=0: the step shares CPUs, memory and devices with all others of the job, the one
// that hvdrun may run in included, and takes none of them away from it. Without --exact and
// --cpus-per-task it has all CPUs of the allocation there.
// --unbuffered: stdout carries bytes, not lines, when it is a relay; slurmstepd would keep what has
// no line end. It is a pseudo-terminal then, but a raw one.
// --export: a shell there needs these; the job's own variables come with the job.
// --chdir: the working folder is looked at later, with all hosts together.
std::vector<std::string> srun_command(const std::string& node,
                                      std::optional<std::uint32_t> component,
                                      const std::string& script) {
  std::vector<std::string> words{"srun",
                                 "--nodes=1",
                                 "--ntasks=1",
                                 "--nodelist=" + node,
                                 "--overlap",
                                 "--mem=0",
                                 "--cpu-bind=none",
                                 "--mpi=none",
                                 "--unbuffered",
                                 "--chdir=/",
                                 "--job-name=hvdrun",
                                 "--export=HOME,LANG,LOGNAME,PATH,SHELL,TMPDIR,USER,XDG_CACHE_HOME",
                                 "/bin/sh",
                                 "-c",
                                 script};
  if (component) words.insert(words.begin() + 1, component_option(*component));
  return words;
}

Environment srun_environment(const Environment& env) {
  Environment kept;
  for (const std::string& entry : env)
    if (!is_option_of_srun(std::string_view(entry).substr(0, entry.find('='))))
      kept.push_back(entry);
  return kept;
}

std::string srun_by_hand(const std::string& node, std::optional<std::uint32_t> component) {
  return "srun " + (component ? component_option(*component) + " " : "") +
         "--overlap --nodes=1 --ntasks=1 --nodelist=" + node + " true";
}

std::string step_end_in(std::string_view line) {
  constexpr std::string_view kStars = "***";
  const auto first = line.find(kStars);
  const auto last = line.rfind(kStars);
  if (first == line.npos || last == first) return {};
  std::string_view text = line.substr(first + kStars.size(), last - first - kStars.size());
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return std::string(text);
}

std::string srun_error_in(std::string_view line) {
  constexpr std::string_view kError = "srun: error: ";
  if (!line.starts_with(kError) || line.find(": task") != line.npos) return {};
  return std::string(line.substr(kError.size()));
}

}  // namespace hvdrun
