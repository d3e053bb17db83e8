// deny_syscall NAME ERRNO PROGRAM ARGUMENT...: runs the program where a system call answers with an
// error, as on an older kernel or under the seccomp profile of a container.
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <map>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
constexpr std::uint32_t kArch = AUDIT_ARCH_AARCH64;
#endif

int main(int argc, char** argv) {
  const std::map<std::string, std::uint32_t> calls = {
      {"pidfd_open", SYS_pidfd_open},
      {"pidfd_send_signal", SYS_pidfd_send_signal},
      {"memfd_create", SYS_memfd_create},
      {"close_range", SYS_close_range},
  };
  if (argc < 4 || calls.count(argv[1]) == 0) return 64;
  const auto error = static_cast<std::uint32_t>(std::atoi(argv[2]));
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kArch, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls.at(argv[1]), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error & SECCOMP_RET_DATA)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{sizeof program / sizeof *program, program};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::perror("deny_syscall");
    return 70;
  }
  ::execv(argv[3], argv + 3);
  std::perror(argv[3]);
  return 127;
}
