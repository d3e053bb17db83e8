// Places where tests disturb what ranks do among each other: they come late, or leave out a wait.
// Only sources compiled with HVD_TEST_POINTS have them (tests/unit/worker/hvd/comm); in the library
// they are nothing.
#pragma once

namespace hvdrun {

#ifdef HVD_TEST_POINTS
// Before and after each access to what the ranks share for meeting each other.
void at_sync_point();
// This wait for the others is not done.
bool leaves_out_wait();
#else
inline void at_sync_point() {}
inline bool leaves_out_wait() { return false; }
#endif

}  // namespace hvdrun
