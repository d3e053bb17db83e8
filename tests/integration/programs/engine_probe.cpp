// Programs whose ranks submit in orders of their own.
//
//   engine_probe order STEPS     25 named tensors a step; prints how often ranks negotiated in so
//                                many steps once they had settled, and what ran
//   engine_probe late            the last rank submits another tensor than the rest
//   engine_probe late-set        rank 0 waits for the last one in a set of the two
//   engine_probe late-joined     rank 0 has joined, and all others wait for the last one
//   engine_probe too-late KIND   the last rank comes when the others' time is over; prints what
//                                each rank is told. KIND allreduce, broadcast, barrier or set
//   engine_probe midway KIND     rank 1 is stopped over and over in the midst of large operations;
//                                rank 0 waits less long; prints what each rank is told. KIND
//                                allreduce, allgather or broadcast
//   engine_probe join            each rank has another number of batches
//   engine_probe sets            process sets, across hosts too
//   engine_probe set-timeline    the same names in two process sets at once
//   engine_probe timeline FILE   starts and stops the timeline around a few steps
//   engine_probe memory HOW      the last rank has none for what an operation needs: it calls the
//                                operation, submits it, or has joined; prints what comes of it
//   engine_probe idle SECONDS    one step, then nothing; prints the CPU time of the rest
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

namespace {

constexpr std::size_t kTensors = 25;

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

void step(std::vector<std::vector<float>>& tensors) {
  const auto rank = static_cast<std::size_t>(hvd::rank());
  std::vector<hvd::Handle> handles;
  for (std::size_t i = 0; i < kTensors; ++i) {
    const std::size_t at = (i * (rank % 2 == 0 ? 1 : kTensors - 1) + rank * 7) % kTensors;
    tensors[at].assign(64 + at, static_cast<float>(at + rank));
    handles.push_back(hvd::allreduce_async(tensors[at].data(), tensors[at].data(),
                                           tensors[at].size(), hvd::ReduceOp::sum, {},
                                           {"gradient/" + std::to_string(at)}));
  }
  for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
  const auto size = static_cast<std::size_t>(hvd::size());
  for (std::size_t at = 0; at < kTensors; ++at)
    expect(tensors[at].back() == static_cast<float>(at * size + size * (size - 1) / 2), "a sum");
}

// For somebody who looks at the system calls; goes nowhere.
void mark(const std::string& text) {
  expect(::write(-1, text.data(), text.size()) == -1, "a mark");
}

void order(int steps) {
  std::vector<std::vector<float>> tensors(kTensors);
  // Until nothing has been negotiated for a while: alike on all ranks.
  int quiet = 0;
  for (int i = 0; i < 2000 && quiet < 20; ++i) {
    const auto so_far = hvd::statistics().negotiations;
    step(tensors);
    quiet = hvd::statistics().negotiations == so_far ? quiet + 1 : 0;
  }
  // On a busy machine ranks may learn something new once more; all of them count the same.
  hvd::Statistics before;
  hvd::Statistics after;
  for (int window = 0; window < 20; ++window) {
    mark("steps begin");
    before = hvd::statistics();
    for (int i = 0; i < steps; ++i) step(tensors);
    after = hvd::statistics();
    mark("steps end");
    if (after.negotiations == before.negotiations) break;
  }
  hvd::barrier();  // nobody leaves before all have ended
  std::printf("negotiations %llu, operations %llu\n",
              static_cast<unsigned long long>(after.negotiations - before.negotiations),
              static_cast<unsigned long long>(after.operations - before.operations));
}

void late() {
  float value = 1;
  const bool last = hvd::rank() == hvd::size() - 1;
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {last ? "other" : "grad.7"});
}

// Longer than any stall check waits.
void never() { std::this_thread::sleep_for(std::chrono::seconds(60)); }

void late_in_set() {
  const bool last = hvd::rank() == hvd::size() - 1;
  float value = 1;
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"everybody's"});
  const hvd::ProcessSet ends = hvd::add_process_set({0, hvd::size() - 1}, "ends");
  if (hvd::process_set_rank(ends) >= 0) {
    hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"of the set", ends});
    if (!last) hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"grad.7", ends});
  }
  never();
}

void late_for_joined() {
  if (hvd::rank() == 0) hvd::join();
  if (hvd::rank() == hvd::size() - 1) never();
  float value = 1;
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"grad.7"});
}

void too_late(const std::string& kind) {
  const bool last = hvd::rank() == hvd::size() - 1;
  float value = 1;
  const hvd::ProcessSet ends = hvd::add_process_set({0, hvd::size() - 1});
  hvd::barrier();
  const auto begin = std::chrono::steady_clock::now();
  std::string text = "no error";
  try {
    if (last) std::this_thread::sleep_for(std::chrono::seconds(3));
    if (kind == "allreduce")
      hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"grad.7"});
    else if (kind == "broadcast")
      hvd::broadcast(&value, 1, hvd::size() - 1, {"grad.7"});
    else if (kind == "barrier")
      hvd::barrier();
    else if (hvd::process_set_rank(ends) >= 0)
      hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"grad.7", ends});
  } catch (const hvd::Error& error) {
    text = (error.code() == hvd::ErrorCode::timeout ? "too late: " : "another error: ") +
           std::string(error.what());
  }
  if (kind == "set") {
    // The others are as they were.
    std::this_thread::sleep_until(begin + std::chrono::seconds(4));
    hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum);
  }
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
  std::this_thread::sleep_until(begin + std::chrono::seconds(6));  // nobody has left by then
}

// Stops this process over and over, for three seconds of each three and a half: one stop may fall
// where the machine itself stood still, and nobody waited long. It takes a process of its own, as
// nobody else could let this one go on.
pid_t stop_now_and_then() {
  const pid_t self = ::getpid();
  const pid_t child = ::fork();
  expect(child >= 0, "a child");
  if (child > 0) return child;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 10; ++i) {
    ::usleep(500'000);
    ::kill(self, SIGSTOP);
    ::sleep(3);
    ::kill(self, SIGCONT);
  }
  ::_exit(0);
}

void midway(const std::string& kind) {
  constexpr std::size_t kCount = std::size_t{16} << 20U;
  std::vector<float> data(kCount, 1);
  std::vector<float> all(kind == "allgather" ? 3 * kCount : 0);
  std::string text;
  hvd::barrier();
  const auto begin = std::chrono::steady_clock::now();
  const pid_t stopper = hvd::rank() == 1 ? stop_now_and_then() : 0;
  try {
    while (true) {
      if (kind == "allgather")
        hvd::allgather(data.data(), all.data(), kCount, {"big"});
      else if (kind == "broadcast")
        hvd::broadcast(data.data(), kCount, 0, {"big"});
      else
        hvd::allreduce(data.data(), data.data(), kCount, hvd::ReduceOp::max, {}, {"big"});
    }
  } catch (const hvd::Error& error) {
    text = error.what();
  }
  if (stopper > 0) {
    ::kill(stopper, SIGKILL);
    ::waitpid(stopper, nullptr, 0);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("after %s: %s\n", seconds.count() < 50 ? "a moment" : "a long time", text.c_str());
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(3));  // nobody has left by then
}

void join() {
  for (int batch = 0; batch <= hvd::rank(); ++batch) {
    float value = 1;
    hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"loss"});
    expect(value == static_cast<float>(hvd::size() - batch), "a sum with joined ranks");
  }
  expect(hvd::join() == hvd::size() - 1, "who joined last");
  std::printf("joined\n");
}

// Both sets have a `grad.7` under way at once.
void set_timeline() {
  const int last = hvd::size() - 1;
  const hvd::ProcessSet ends = hvd::add_process_set({0, last}, "ends");
  const hvd::ProcessSet others = hvd::add_process_set({0, 1});
  std::vector<float> a(100'000);
  std::vector<float> b(100'000);
  for (int round = 0; round < 20; ++round) {
    std::vector<hvd::Handle> handles;
    for (const auto& [set, data] : {std::pair(ends, &a), std::pair(others, &b)})
      if (hvd::process_set_rank(set) >= 0)
        handles.push_back(hvd::allreduce_async(data->data(), data->data(), data->size(),
                                               hvd::ReduceOp::sum, {}, {"grad.7", set}));
    for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
  }
  hvd::barrier();
}

void sets() {
  std::vector<int> odd;
  for (int rank = 1; rank < hvd::size(); rank += 2) odd.push_back(rank);
  const hvd::ProcessSet set = hvd::add_process_set(odd, "odd");
  const hvd::ProcessSet ends = hvd::add_process_set({0, hvd::size() - 1});
  for (int round = 0; round < 20; ++round) {
    for (const hvd::ProcessSet& one : {set, ends}) {
      if (hvd::process_set_rank(one) < 0) continue;
      std::vector<double> data(50'000, 1);
      hvd::allreduce(data.data(), data.data(), data.size(), hvd::ReduceOp::sum, {}, {"x", one});
      expect(data.back() == static_cast<double>(hvd::process_set_ranks(one).size()), "a sum");
    }
    hvd::barrier();
  }
  hvd::remove_process_set(set);
  std::printf("sets\n");
}

void timeline(const std::string& file) {
  std::vector<std::vector<float>> tensors(kTensors);
  step(tensors);
  hvd::barrier();
  hvd::start_timeline(file);
  for (int i = 0; i < 3; ++i) step(tensors);
  float value = 1;
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {"direct"});
  hvd::stop_timeline();
  hvd::barrier();
}

// From now on little more than what it has.
void limit_memory() {
  unsigned long pages = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  expect(file != nullptr && std::fscanf(file, "%lu", &pages) == 1, "the size of this process");
  std::fclose(file);
  const rlim_t limit = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (16U << 20U);
  const rlimit all{limit, limit};
  expect(::setrlimit(RLIMIT_AS, &all) == 0, "a limit");
}

void memory(const std::string& how) {
  constexpr std::size_t kCount = std::size_t{32} << 20U;
  const bool last = hvd::rank() == hvd::size() - 1;
  std::vector<float> data(last && how == "joined" ? 1 : kCount, 1);
  const auto begin = std::chrono::steady_clock::now();
  // An Adasum of a group puts it together first.
  const std::vector<hvd::Buffer> halves{
      {data.data(), data.data(), data.size() / 2},
      {data.data() + data.size() / 2, data.data() + data.size() / 2, data.size() / 2}};
  const auto op = how == "joined" ? hvd::ReduceOp::sum : hvd::ReduceOp::adasum;
  std::string text;
  try {
    // Across hosts it may itself fail where it has not ended yet: what the last rank does next
    // breaks all that is under way.
    hvd::barrier();
    if (last) limit_memory();
    if (last && how == "joined")
      hvd::join();
    else if (how == "called")
      hvd::grouped_allreduce(halves, hvd::DataType::float32, op, {}, {"big"});
    else
      hvd::synchronize(
          hvd::grouped_allreduce_async(halves, hvd::DataType::float32, op, {}, {"big"}));
  } catch (const hvd::Error& error) {
    text = error.what();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("after %s: %s\n", seconds.count() < 10 ? "a moment" : "a long time", text.c_str());
  std::fflush(stdout);
  // The first to leave would be the cause of the job's end, also for a rank that still adds up what
  // it has. On a busy machine that takes a while.
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
}

double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

long switches() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_nvcsw + used.ru_nivcsw;
}

void idle(int seconds) {
  std::vector<std::vector<float>> tensors(kTensors);
  step(tensors);
  hvd::barrier();
  const double cpu = cpu_seconds();
  const long before = switches();
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  std::printf("idle: %.6f s of CPU, %ld switches\n", cpu_seconds() - cpu, switches() - before);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const std::string value = argc > 2 ? argv[2] : "";
  try {
    hvd::InitOptions options;
    const std::string rank = ::getenv("HVD_RANK") != nullptr ? ::getenv("HVD_RANK") : "";
    if (mode == "midway") options.collective_timeout = std::chrono::seconds(rank == "0" ? 2 : 60);
    hvd::init(options);
    if (mode == "order") order(std::stoi(value));
    if (mode == "late") late();
    if (mode == "late-set") late_in_set();
    if (mode == "late-joined") late_for_joined();
    if (mode == "too-late") too_late(value);
    if (mode == "midway") midway(value);
    if (mode == "join") join();
    if (mode == "sets") sets();
    if (mode == "timeline") timeline(value);
    if (mode == "set-timeline") set_timeline();
    if (mode == "memory") memory(value);
    if (mode == "idle") idle(std::stoi(value));
    hvd::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
