// The exit codes of hvdrun itself (docs/exit-codes.md). A failing rank's own code passes through:
// its exit code, or 128 + the signal that ended it.
#pragma once

namespace hvdrun::exit_code {

inline constexpr int kOk = 0;
inline constexpr int kUsage = 64;           // bad input; nothing was started
inline constexpr int kHost = 69;            // a host could not be opened, or was lost
inline constexpr int kInternal = 70;        // a fault of hvdrun
inline constexpr int kOutput = 74;          // stdout or stderr could not be written
inline constexpr int kTryAgain = 75;        // out of processes, descriptors or memory for now
inline constexpr int kStall = 80;           // ranks waited in vain for others
inline constexpr int kEarlyExit = 81;       // a rank ended with 0 while others needed it
inline constexpr int kStalled = 82;         // --stall-check-shutdown-time-seconds
inline constexpr int kTimeout = 124;        // --timeout
inline constexpr int kNotExecutable = 126;  // the program is there but cannot be run
inline constexpr int kNotFound = 127;       // no such program
inline constexpr int kSignalBase = 128;

}  // namespace hvdrun::exit_code
