// The place that a file of output is written to, whatever stands at its name. One rule for all
// programs:
//
// - nothing, or a regular file: a new file takes its place when it is whole; a stream goes into it;
// - a symbolic link: the same where it leads, and the link stays;
// - a pipe, a terminal, a device: it is written to, and nothing takes its place;
// - a name of a descriptor (/dev/stdout, /proc/self/fd/3): the same, behind what is there;
// - a folder, a socket: an error.
#pragma once

#include <string>
#include <string_view>

#include "common/base/unique_fd.h"

namespace hvdrun {

struct OutputPlace {
  std::string path;     // behind all links, where it is a file
  bool is_file = true;  // a regular one, or none yet
};

// 0, or the error as errno has it.
int find_output_place(const std::string& path, OutputPlace& place);

// A write waits for a slow reader of a pipe, or is EAGAIN.
enum class SlowReader : bool { waited_for, not_waited_for };

// Opens what is no file for writing, at its end. A pipe that nobody reads is ENXIO, not waited for.
// None: errno.
UniqueFd open_output(const OutputPlace& place, SlowReader reader = SlowReader::waited_for);

// For what comes piece by piece: a file begins anew, or is gone on with. None: errno.
enum class Begin : bool { anew, at_end };
UniqueFd open_output_stream(const std::string& path, Begin begin,
                            SlowReader reader = SlowReader::waited_for);

// All of it; false: errno.
bool write_all(int fd, std::string_view bytes);
// An errno of these, in words.
std::string output_fault_text(int error);

// 0 when a file could be written there now, else an errno. Nothing is changed.
int check_output(const std::string& path);

}  // namespace hvdrun
