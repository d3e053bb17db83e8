// elastic_samples SAMPLES BATCH MS FILE: trains over all samples again and again, a commit after
// each batch and MS between two, until there is FILE. The state counts how often each sample has
// entered it; each rank looks at that at the end of an epoch:
//
//   epoch N rank R of S: each sample once     or which one was not
//
// With PROBE_OVERLAP=BYTES in the environment new ranks get the state, which has so many bytes
// more, while the others train.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hvd/elastic_run.h>

int main(int argc, char** argv) {
  if (argc != 5) return 64;
  const auto samples = static_cast<std::size_t>(std::atoi(argv[1]));
  const auto batch = static_cast<std::size_t>(std::atoi(argv[2]));
  const std::chrono::milliseconds pause(std::atoi(argv[3]));
  hvd::init();
  std::vector<double> counts(samples, 0.0);
  std::uint64_t epoch = 0;
  hvd::elastic::ElasticSampler sampler(samples, true, 7);
  hvd::elastic::MemoryState state;
  state.add("counts", counts.data(), samples * sizeof(double)).add("epoch", epoch).add(sampler);
  const char* const more = std::getenv("PROBE_OVERLAP");
  std::vector<char> ballast(more != nullptr ? static_cast<std::size_t>(std::atoi(more)) : 0, 'x');
  if (!ballast.empty()) state.add("ballast", ballast.data(), ballast.size());
  hvd::elastic::RunOptions options;
  options.overlap = more != nullptr;
  const auto look = [&] {
    std::string wrong;
    for (std::size_t i = 0; i < samples && wrong.empty(); ++i)
      if (counts[i] != static_cast<double>(epoch + 1))
        wrong = "sample " + std::to_string(i) + " " + std::to_string(counts[i]) + " times";
    std::printf("epoch %d rank %d of %d: %s\n", static_cast<int>(epoch), hvd::rank(), hvd::size(),
                wrong.empty() ? "each sample once" : wrong.c_str());
    std::fflush(stdout);
  };
  hvd::elastic::run(
      state,
      [&] {
        for (bool over = false; !over;) {
          if (const auto part = sampler.next(batch)) {
            std::vector<double> step(samples, 0.0);
            if (hvd::elastic::contributor_rank() >= 0)
              for (const std::size_t sample : *part) ++step[sample];
            hvd::allreduce(step.data(), step.data(), samples, hvd::ReduceOp::sum);
            hvd::elastic::catch_up();
            for (std::size_t i = 0; i < samples; ++i) counts[i] += step[i];
            sampler.record();
            std::this_thread::sleep_for(pause);
          } else {
            // A rank that is new has no counts yet.
            if (hvd::elastic::contributor_rank() >= 0) look();
            sampler.set_epoch(++epoch);
            // All see it in the same epoch.
            double there = ::access(argv[4], F_OK) == 0 ? 1 : 0;
            hvd::allreduce(&there, &there, 1, hvd::ReduceOp::max);
            over = there > 0;
          }
          if (!over) state.commit();
        }
      },
      options);
  std::printf("done: rank %d of %d, %d epochs\n", hvd::rank(), hvd::size(),
              static_cast<int>(epoch));
  hvd::shutdown();
  return 0;
}
