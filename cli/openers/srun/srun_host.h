// A host of a Slurm allocation, opened by srun as a job step.
//
// That srun is killed does not end what its step runs: slurmstepd keeps the task's stdin open then.
// What ends the step is a signal that srun itself takes, or, when it is killed, the helper process
// that it has forked for that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/openers/client_host.h"

namespace hvdrun {

class SrunHost : public ClientHost {
 public:
  // `component`: as in srun_command(). `descriptor_limit`: srun passes its own limits on to the
  // step. 0: those of hvdrun.
  SrunHost(boost::asio::io_context& io, const std::string& node,
           std::optional<std::uint32_t> component, const std::string& script,
           std::uint64_t descriptor_limit, Request request, Callbacks callbacks);
  // One that has not taken the signal of leave() is killed, it alone.
  ~SrunHost() override;

  void give_up() override;
  int leave() override;
  // None that may be killed with all below it: its helper is to have the step ended.
  pid_t client() const override { return -1; }
  const char* stage() const override;
  std::string cause() const override;

 protected:
  End end_of(const ExitStatus& status) const override;
  bool hear(const std::string& line) override;
  void call_off() override;

 private:
  // A reason said since the guard runs.
  std::string step_end_;
  std::string error_;
};

}  // namespace hvdrun
