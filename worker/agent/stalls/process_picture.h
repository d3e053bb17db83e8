// The picture of a process that others may be waiting for, from what the kernel says.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "common/wire/stall_messages.h"

namespace hvdrun {

// All of the picture but what the rank itself says.
RankPicture picture_process(std::uint32_t rank, pid_t pid);

// "stopped in do_signal_stop", with its system call and its kernel stack where they are known.
std::string words_of(const RankProbe& probe);

// /proc/PID/stack as "futex_wait < do_futex < __x64_sys_futex".
std::string stack_names(std::string_view text);
// /proc/PID/syscall as "read of pipe:[4711]", a rare one as its number; empty: it is in none.
// `file_of` tells what stands behind a descriptor.
std::string system_call_name(std::string_view text,
                             const std::function<std::string(std::uint64_t fd)>& file_of);

// Takes of each stack what is over its share of so many bytes.
void cut_stacks(std::vector<RankProbe>& ranks, std::size_t bytes);

// Takes stacks and then names of operations away until all of it has at most about so many bytes.
void cut_pictures(std::vector<RankPicture>& ranks, std::size_t bytes);

}  // namespace hvdrun
