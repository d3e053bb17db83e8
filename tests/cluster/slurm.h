// Slurm on the hosts of a cluster: slurmctld on the first, slurmd on each, as they run anywhere.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/cluster/cluster.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {

class Slurm {
 public:
  // A Slurm of so many hosts of a cluster. Throws std::runtime_error with what the daemons said
  // when they do not come up. They end with the cluster, whose hosts have process numbers of their
  // own.
  Slurm(const Cluster& cluster, int hosts);
  Slurm(const Slurm&) = delete;
  Slurm& operator=(const Slurm&) = delete;

  // The reason why there can be none here; empty: there can.
  static std::string missing();

  // The words that run one of Slurm's commands, salloc with a program say, in front of its own.
  std::vector<std::string> words(std::vector<std::string> command) const;
  // The same, run on the first host.
  RunResult run(std::vector<std::string> command) const;
  // The SLURM_* variables of an allocation of all hosts, and what finds Slurm: words for env.
  const std::vector<std::string>& allocation() const { return allocation_; }
  // The job steps that run on a host now: "1.7".
  std::vector<std::string> steps(const std::string& host) const;

 private:
  void write_configuration(int hosts) const;
  void start(const std::string& host, const std::vector<std::string>& daemon);
  void wait_for_hosts(int hosts) const;
  void allocate(int hosts);
  std::string logs() const;

  const Cluster& cluster_;
  const std::string folder_;
  std::vector<std::unique_ptr<Background>> daemons_;
  std::unique_ptr<Background> salloc_;  // holds the allocation
  std::vector<std::string> allocation_;
};

}  // namespace hvdrun::test
