// torch_probe NAME [ARGUMENT...]: the LibTorch program NAME of torch_probes.h.
#include <cstdio>
#include <map>
#include <string>

#include "tests/integration/programs/torch_probes.h"

int main(int count, char** words) {
  using namespace hvdrun::test;
  const std::map<std::string, int (*)(const Arguments&)> probes = {
      {"async", async_probe::run},       {"combination", combination_probe::run},
      {"edge", edge_probe::run},         {"elastic", elastic_probe::run},
      {"gradient", gradient_probe::run}, {"kill", kill_probe::run},
      {"mismatch", mismatch_probe::run}, {"options", options_probe::run},
      {"set", set_probe::run},           {"tensors", tensors_probe::run},
  };
  const auto found = count > 1 ? probes.find(words[1]) : probes.end();
  if (found == probes.end()) {
    std::fprintf(stderr, "torch_probe: the first argument is the name of a probe\n");
    return 64;
  }
  return found->second({words + 2, words + count});
}
