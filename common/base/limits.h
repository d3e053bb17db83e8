// Every limit on a length or a count that comes from a peer, and every default deadline, in one
// place. A value from the wire is compared with its limit before memory is taken for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hvdrun::limits {

inline constexpr std::size_t kMaxFramePayload =
    16U << 20;  // bytes; a Launch with 1 MB of environment fits
inline constexpr std::size_t kMaxString = 8U << 20;     // bytes; a store value is the longest
inline constexpr std::size_t kMaxListItems = 1U << 17;  // items of any list in a message
// For a rank that is to be started again, or is to come and meet the others, in an elastic job.
inline constexpr std::chrono::seconds kElasticTimeout{600};
inline constexpr std::size_t kMaxRanks = 1U << 20;         // ranks in one job
inline constexpr std::size_t kMaxHosts = 1U << 17;         // hosts in one job
inline constexpr std::size_t kMaxSlotsPerHost = 1U << 14;  // slots of one host
inline constexpr std::size_t kMaxHostName = 255;           // bytes
inline constexpr std::size_t kMaxUserName = 255;           // bytes
inline constexpr std::size_t kMaxTextFile = 16U << 20;     // bytes of a file the user names
inline constexpr std::size_t kMaxStoreKey = 1024;          // bytes
inline constexpr std::size_t kMaxStoreValue = 8U << 20;    // bytes
inline constexpr std::size_t kMaxStoreBytes = 1U << 30;    // keys and values together
inline constexpr std::size_t kMaxStoreWaiters = 1U << 20;  // waiting gets
inline constexpr std::size_t kMaxHttpLine = 8U << 10;      // bytes of a request or header line
inline constexpr std::size_t kMaxHttpHeaders = 64;         // lines
inline constexpr std::size_t kMaxHttpConnections = 4096;   // open ones; more wait in the backlog
inline constexpr std::size_t kMaxHttpHeld = 256U << 20;    // bytes of all requests not whole yet
inline constexpr std::size_t kMaxHorovodKeys = 1U << 22;   // in all scopes of Horovod's store
inline constexpr std::size_t kMaxHorovodWaiters = 2048;    // gets that wait for an assignment
inline constexpr std::size_t kMaxHorovodHeld = 2048;       // gets that wait for a key
inline constexpr std::size_t kMaxHorovodFollows = 4096;    // scopes of which a host has a copy
inline constexpr std::size_t kMaxHorovodAsked = 1U << 14;  // a host's requests that wait
// Bytes of keys and values under way between coordinator and agent, each way, before more wait.
inline constexpr std::size_t kHorovodWindow = 1U << 20;
inline constexpr std::size_t kMaxFenceBlob = 64U << 10;    // bytes of the root blob
inline constexpr std::size_t kMaxStatusAskers = 64;        // connections of hvdrun status
inline constexpr std::size_t kMaxNamedRanges = 64;         // of ranks, in one line for people
inline constexpr std::size_t kMaxNamedHosts = 64;          // likewise
inline constexpr std::size_t kMaxStatus = 12U << 20;       // bytes of all that a status says
inline constexpr std::size_t kMaxTrouble = 1U << 10;       // bytes of a rank's error text
inline constexpr std::size_t kMaxPendingTensors = 16;      // named in one stall report
inline constexpr std::size_t kMaxPendingRanks = 1U << 14;  // of their process sets, in all
inline constexpr std::size_t kMaxTensorName = 256;         // bytes, in such a report
inline constexpr std::size_t kMaxStateLayout = 1U << 10;   // bytes of a state's description
inline constexpr std::size_t kMaxKernelStack = 4U << 10;   // bytes of one process's
inline constexpr std::size_t kMaxProcessText = 256;        // bytes of a word about a process
inline constexpr std::size_t kMaxPictures = 4U << 20;      // bytes an agent says of all its ranks
inline constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 40;  // one shared-memory segment
inline constexpr std::size_t kMaxSegments = 4096;  // segments an agent keeps for one job
// Bytes queued on one connection. Nobody who sends gets that far; who sends what and how it is held
// back stands in docs/design/connections.md ("Queues").
inline constexpr std::size_t kMaxWriteQueue = 64U << 20;
inline constexpr std::size_t kMaxDriverQueue = 16U
                                               << 20;  // of what only tells; then it is left out
inline constexpr std::size_t kMaxOutputLine = 64U
                                              << 10;  // bytes; a longer line is passed on in parts
inline constexpr std::size_t kMaxHeldLines =
    64U << 20;  // bytes of unfinished lines that hvdrun keeps from being torn
inline constexpr std::size_t kOutputCredit = 256U << 10;  // bytes a rank may be ahead of the viewer
inline constexpr std::size_t kMaxOutputOfHost = 64U << 20;  // bytes, all its ranks together
inline constexpr std::size_t kMaxOutputQueue =
    8U << 20;  // bytes an agent queues for the viewer before it stops reading
inline constexpr std::size_t kInputCredit = 64U << 10;     // bytes of stdin on their way to a rank
inline constexpr std::size_t kMaxInputOfHost = 32U << 20;  // bytes, all ranks of a host together
inline constexpr std::size_t kMaxFilePath = 4096;          // bytes of a name below --sync-dir
inline constexpr std::size_t kMaxFileDepth = 32;           // folders in it, and the file
inline constexpr std::size_t kFileChunk = 64U << 10;       // bytes of a file at once
inline constexpr std::size_t kFileWindow = 1U << 20;     // bytes of files on their way from a host
inline constexpr std::size_t kFileRate = 64U << 20;      // bytes a second, while ranks run
inline constexpr std::size_t kMaxSyncedFiles = 100'000;  // files and folders of a host
inline constexpr std::size_t kMaxTimelineName = 256;     // bytes of a tensor's name; cut off
inline constexpr std::size_t kMaxTimelineNames = 1U << 16;    // that a rank remembers at once
inline constexpr std::size_t kMaxTimelineBatch = 256U << 10;  // bytes of events at once
inline constexpr std::size_t kMaxTimelinePath = 4096;         // bytes
inline constexpr std::size_t kMaxTimelineHeld = 4U << 20;     // bytes an agent keeps
inline constexpr std::size_t kMaxTimelineQueue =
    4U << 20;  // bytes queued for the viewer before an agent keeps its ranks' events
inline constexpr std::size_t kMaxEventsWaiting =
    16U << 20;  // bytes of events for a pipe that nobody reads; then they are left out and counted
inline constexpr std::size_t kMaxPendingHandshakes =
    256;  // connections that have not said hello yet

inline constexpr std::size_t kMaxAgentAnswer = 256U << 10;  // bytes an ssh agent says at once
inline constexpr std::size_t kMaxSshConfig = 1U << 20;      // bytes of ssh -G

inline constexpr std::chrono::milliseconds kHandshakeTimeout{10'000};
inline constexpr std::chrono::milliseconds kStartTimeout{30'000};  // all hosts up (--start-timeout)
inline constexpr std::chrono::milliseconds kNameLookUp{1'000};     // is a host this machine?
inline constexpr std::chrono::milliseconds kGrace{5'000};          // between TERM and KILL
inline constexpr std::chrono::milliseconds kHeartbeat{1'000};      // with a short lease, more often
inline constexpr std::chrono::milliseconds kMinHeartbeat{50};
// A connection for output may stand still for as long as the user has stopped hvdrun.
inline constexpr std::chrono::milliseconds kOutputPatience{3'600'000};
inline constexpr std::chrono::milliseconds kSilence{3'000};  // of a host, before it is named
inline constexpr std::chrono::milliseconds kLease{15'000};
inline constexpr std::chrono::milliseconds kInitTimeout{
    300'000};  // hvd::init() waits for its peers
inline constexpr std::chrono::milliseconds kCollectiveTimeout{1'800'000};
// A client of Horovod's store has no time-out of its own: it is always answered or closed.
inline constexpr std::chrono::milliseconds kHttpIdle{60'000};    // before a request begins
inline constexpr std::chrono::milliseconds kHttpRequest{3'000};  // from its first byte to its last
inline constexpr std::chrono::milliseconds kHttpResponse{30'000};  // until an answer is taken
// So long a get waits for a key. The client's own time-out, of seconds, is looked at in between.
inline constexpr std::chrono::milliseconds kHttpHold{200};
// A stall is looked into: an agent waits for its workers, the coordinator a bit longer for agents.
inline constexpr std::chrono::milliseconds kWorkerAnswer{1'000};
inline constexpr std::chrono::milliseconds kSurveyAnswer{2'000};
inline constexpr std::chrono::milliseconds kStallWarning{60'000};  // Horovod's default
inline constexpr std::chrono::milliseconds kMaxStoreWait{3'600'000};

}  // namespace hvdrun::limits
