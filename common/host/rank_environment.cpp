#include "common/host/rank_environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "common/base/launch_record.h"
#include "common/host/slurm_devices.h"

namespace hvdrun {
namespace {

using Place = WorkerPlace;
using Family = RankVariable::Family;
using Rule = RankVariable::Rule;
using RankValue = std::optional<std::string>;

template <auto Number>
RankValue number_at(const Place& place) {
  return std::to_string(place.*Number);
}

template <auto Text>
RankValue text_at(const Place& place) {
  return place.*Text;
}

template <auto Number>
RankValue horovod_at(const Place& place) {
  return std::to_string(place.horovod.place.*Number);
}

RankValue gloo_text(const Place&) { return "gloo"; }

bool is_told_of_horovod(const Place& place) {
  return place.compat.horovod && place.horovod.port != 0;
}

bool takes_family(const Place& place, Family family) {
  switch (family) {
    case Family::torch:
      return place.compat.torch;
    case Family::mpi_ids:
      return place.compat.mpi_ids;
    case Family::horovod:
      return is_told_of_horovod(place);
    default:
      return true;
  }
}

RankValue proved_address(const Place& place) {
  return place.host_address.empty() ? RankValue() : place.host_address;
}

// The network is the user's choice (--network-interfaces); else the one that was proved.
RankValue proved_interface(const Place& place) {
  return place.interface.empty() ? RankValue() : place.interface;
}

RankValue gloo_interface(const Place& place) {
  const bool several = !place.host_address.empty();
  return several && place.compat.torch ? proved_interface(place) : RankValue();
}

// Without the sign NCCL takes it for the beginning of a name: eth1 for eth10 too.
RankValue nccl_interface(const Place& place) {
  if (place.interface.empty()) return {};
  if (!is_told_of_horovod(place) && !gloo_interface(place)) return {};
  return "=" + place.interface;
}

// One number for the job; a slot that an elastic job has started again is not new either.
RankValue starts_before(const Place& place) { return std::to_string(place.restarts + place.start); }

RankValue late_mark(const Place& place) { return place.is_late ? RankValue("1") : RankValue(); }

RankValue synced_folder(const Place& place) {
  return place.sync_folder.empty() ? RankValue() : place.sync_folder;
}

RankValue threads_of_rank(const Place& place) {
  return std::to_string(std::max(1U, place.usable_cores / std::max(1U, place.local_size)));
}

constexpr auto make_rank_variables() {
  using enum RankVariable::Family;
  using enum RankVariable::Rule;
  using enum RankVariable::Known;
  return std::to_array<RankVariable>({
      {"HVD_JOB_ID", hvd, ours, text_at<&Place::job_id>, at_start},
      {"HVD_EPOCH", hvd, ours, number_at<&Place::epoch>},
      {"HVD_START", hvd, ours, number_at<&Place::start>},
      {"HVD_RESTART_COUNT", hvd, ours, number_at<&Place::restarts>},
      {"HVD_MAX_RESTARTS", hvd, ours, number_at<&Place::max_restarts>},
      {"HVD_LATE", hvd, ours_or_absent, late_mark},
      {"HVD_AGENT", hvd, ours, text_at<&Place::agent>, at_start},
      {"HVD_HOSTNAME", hvd, ours, text_at<&Place::host_name>},
      {"HVD_RANK", hvd, ours, number_at<&Place::rank>},
      {"HVD_SIZE", hvd, ours, number_at<&Place::size>},
      {"HVD_LOCAL_RANK", hvd, ours, number_at<&Place::local_rank>},
      {"HVD_LOCAL_SIZE", hvd, ours, number_at<&Place::local_size>},
      {"HVD_CROSS_RANK", hvd, ours, number_at<&Place::cross_rank>},
      {"HVD_CROSS_SIZE", hvd, ours, number_at<&Place::cross_size>},
      {"HVD_HOST_ADDRESS", hvd, ours_or_absent, proved_address, alone},  // libhvd binds to it
      {"HVD_OUTPUT_COLUMNS", hvd, of_plan},
      {kLaunchRecord, hvd, of_plan},

      {"GLOO_SOCKET_IFNAME", network, users, gloo_interface, alone},
      {"NCCL_SOCKET_IFNAME", network, users, nccl_interface, alone},

      {"RANK", torch, ours, number_at<&Place::rank>},
      {"WORLD_SIZE", torch, ours, number_at<&Place::size>},
      {"LOCAL_RANK", torch, ours, number_at<&Place::local_rank>},
      {"LOCAL_WORLD_SIZE", torch, ours, number_at<&Place::local_size>},
      {"GROUP_RANK", torch, ours, number_at<&Place::node_rank>},
      {"GROUP_WORLD_SIZE", torch, ours, number_at<&Place::node_count>},
      {"NODE_RANK", torch, ours, number_at<&Place::node_rank>},
      {"ROLE_NAME", torch, ours, [](const Place&) -> RankValue { return "default"; }},
      {"ROLE_RANK", torch, ours, number_at<&Place::rank>},
      {"ROLE_WORLD_SIZE", torch, ours, number_at<&Place::size>},
      {"MASTER_ADDR", torch, unless_given, text_at<&Place::master_addr>, alone},
      {"MASTER_PORT", torch, unless_given, number_at<&Place::master_port>, at_start},
      {"TORCHELASTIC_RESTART_COUNT", torch, ours, starts_before},
      {"TORCHELASTIC_MAX_RESTARTS", torch, ours, number_at<&Place::max_restarts>},
      {"TORCHELASTIC_RUN_ID", torch, ours, text_at<&Place::job_id>, at_start},
      // Not TORCHELASTIC_USE_AGENT_STORE: rank 0 serves the store itself, which every program can.
      {"TORCHELASTIC_*", torch, dropped},

      {"OMPI_COMM_WORLD_RANK", mpi_ids, ours, number_at<&Place::rank>},
      {"OMPI_COMM_WORLD_SIZE", mpi_ids, ours, number_at<&Place::size>},
      {"OMPI_COMM_WORLD_LOCAL_RANK", mpi_ids, ours, number_at<&Place::local_rank>},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", mpi_ids, ours, number_at<&Place::local_size>},
      {"OMPI_COMM_WORLD_NODE_RANK", mpi_ids, ours, number_at<&Place::local_rank>},
      {"OMPI_UNIVERSE_SIZE", mpi_ids, ours, number_at<&Place::size>},
      {"MPI_LOCALRANKID", mpi_ids, ours, number_at<&Place::local_rank>},
      {"MPI_LOCALNRANKS", mpi_ids, ours, number_at<&Place::local_size>},
      {"OMPI_*", mpi_ids, dropped},
      {"OMPI_MCA_*", mpi_ids, kept},  // the user's own settings of Open MPI, but not its wire-up:
      {"OMPI_MCA_ess_*", mpi_ids, dropped},
      {"OMPI_MCA_orte_*", mpi_ids, dropped},
      {"OMPI_MCA_pmix*", mpi_ids, dropped},

      {"HOROVOD_RANK", horovod, ours, horovod_at<&RankPlace::rank>},
      {"HOROVOD_SIZE", horovod, ours, horovod_at<&RankPlace::size>},
      {"HOROVOD_LOCAL_RANK", horovod, ours, horovod_at<&RankPlace::local_rank>},
      {"HOROVOD_LOCAL_SIZE", horovod, ours, horovod_at<&RankPlace::local_size>},
      {"HOROVOD_CROSS_RANK", horovod, ours, horovod_at<&RankPlace::cross_rank>},
      {"HOROVOD_CROSS_SIZE", horovod, ours, horovod_at<&RankPlace::cross_size>},
      {"HOROVOD_HOSTNAME", horovod, ours,
       [](const Place& place) -> RankValue { return place.horovod.host_name; }},
      {"HOROVOD_CONTROLLER", horovod, ours, gloo_text},
      {"HOROVOD_CPU_OPERATIONS", horovod, ours, gloo_text},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", horovod, ours,
       [](const Place&) -> RankValue { return kHorovodAddress; }},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", horovod, ours,
       [](const Place& place) -> RankValue { return std::to_string(place.horovod.port); },
       at_start},
      {"HOROVOD_GLOO_IFACE", horovod, users, proved_interface, alone},
      {"HOROVOD_ELASTIC", horovod, ours_or_absent,
       [](const Place& place) -> RankValue {
         return place.horovod.elastic ? RankValue("1") : RankValue();
       }},
      {"_HOROVOD_SECRET_KEY", horovod, dropped},

      {"OMP_NUM_THREADS", openmp, users, threads_of_rank, at_start},

      {"OCI__SYNC_DIR", other, ours_or_absent, synced_folder},
      {"LOCAL_SIZE", other, dropped},
      {"CROSS_RANK", other, dropped},
      {"CROSS_SIZE", other, dropped},
      {"HYDI_CONTROL_FD", other, dropped},
      {"MV2_COMM_WORLD_*", other, dropped},
      {"PMI_*", other, dropped},
      {"PMIX_*", other, dropped},
      {"SLURM_GTIDS", other, dropped},
      {"SLURM_LOCALID", other, dropped},
      {"SLURM_NODEID", other, dropped},
      {"SLURM_PROCID", other, dropped},
      {"SLURM_STEPID", other, dropped},
      {"SLURM_STEP_ID", other, dropped},
  });
}

constexpr auto kRankVariables = make_rank_variables();

bool row_covers(const RankVariable& row, std::string_view name) {
  return row.name.ends_with('*') ? name.starts_with(row.name.substr(0, row.name.size() - 1))
                                 : name == row.name;
}

std::uint32_t number_in(const Environment& env, std::string_view name) {
  const char* const text = find_variable(env, name);
  std::uint32_t number = 0;
  if (text != nullptr) std::from_chars(text, text + std::strlen(text), number);
  return number;
}

bool is_stale(std::string_view entry) {
  const RankVariable* const row = find_rank_variable(entry.substr(0, entry.find('=')));
  return row != nullptr && row->rule != Rule::users && row->rule != Rule::kept;
}

}  // namespace

std::span<const RankVariable> rank_variables() { return kRankVariables; }

const RankVariable* find_rank_variable(std::string_view name) {
  const RankVariable* found = nullptr;
  for (const RankVariable& row : kRankVariables) {
    if (!row_covers(row, name)) continue;
    if (!row.name.ends_with('*')) return &row;
    if (found == nullptr || found->name.size() < row.name.size()) found = &row;
  }
  return found;
}

void drop_stale_variables(Environment& env) {
  drop_recorded_variables(env);
  std::erase_if(env, [](const std::string& entry) { return is_stale(entry); });
}

Environment worker_environment(Environment job, const WorkerPlace& at, const Environment& of_host,
                               const Environment& here) {
  WorkerPlace place = at;
  place.restarts = number_in(job, "HVD_RESTART_COUNT");
  place.max_restarts = number_in(job, "HVD_MAX_RESTARTS");
  set_variables(job, of_host);
  add_devices_of_slurm(job, here);
  const char* const of_driver = find_variable(job, kLaunchRecord);
  std::string record = of_driver == nullptr ? "" : of_driver;
  for (const RankVariable& row : kRankVariables) {
    if (row.value == nullptr || !takes_family(place, row.family)) continue;
    const RankValue value = row.value(place);
    if (!value && row.rule == Rule::ours_or_absent) erase_variable(job, row.name);
    const bool asks = row.rule == Rule::unless_given || row.rule == Rule::users;
    if (!value || (asks && find_variable(job, row.name) != nullptr)) continue;
    set_variable(job, row.name, *value);
    add_to_record(record, row.name, *value);
  }
  set_variable(job, kLaunchRecord, record);
  return job;
}

}  // namespace hvdrun
