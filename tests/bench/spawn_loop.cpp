// The floor of a local launch: posix_spawn N times, then wait for all. Nothing else.
//
//   spawn_loop N PROGRAM [ARGUMENT...]       exits with 0 when all did
#include <cstdlib>
#include <iostream>
#include <spawn.h>
#include <string>
#include <sys/wait.h>

int main(int argc, char** argv) {
  const int count = argc > 2 ? std::atoi(argv[1]) : 0;
  if (count <= 0) {
    std::cerr << "usage: spawn_loop N PROGRAM [ARGUMENT...]\n";
    return 64;
  }
  for (int i = 0; i < count; ++i) {
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, argv[2], nullptr, nullptr, argv + 2, environ);
    if (error != 0) {
      std::cerr << "spawn_loop: cannot start '" << argv[2] << "': error " << error << '\n';
      return 1;
    }
  }
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    int status = 0;
    if (wait(&status) < 0 || status != 0) ++failed;
  }
  return failed == 0 ? 0 : 1;
}
