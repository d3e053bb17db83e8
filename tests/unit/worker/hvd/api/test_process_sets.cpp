// Process sets, names, groups and join() between processes.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/api/mini_job.h"

using namespace hvdrun::test;

namespace {

void wants(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::string text_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return error.what();
  }
  return "no error";
}

void all_well(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results) {
    INFO(result.text);
    CHECK(result.status == 0);
    CHECK(result.text.empty());
  }
}

float sum_in(const hvd::ProcessSet& set, float value, const std::string& name = {}) {
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, {name, set});
  return value;
}

}  // namespace

TEST_CASE("process sets work beside each other", "[api][sets]") {
  all_well(MiniJob(4).run([](int rank) {
    hvd::InitOptions options;
    options.process_sets = {{"evens", {2, 0}}, {"odds", {1, 3}}};
    hvd::init(options);
    const hvd::ProcessSet own = hvd::process_set(rank % 2 == 0 ? "evens" : "odds");
    const hvd::ProcessSet other = hvd::process_set(rank % 2 == 0 ? "odds" : "evens");
    wants(hvd::process_set_ranks(own) == std::vector<int>{rank % 2, rank % 2 + 2}, "ranks");
    wants(hvd::process_set_rank(own) == rank / 2, "place");
    std::string names;
    for (const hvd::ProcessSet& set : hvd::process_sets())
      names += std::to_string(set.id) + hvd::process_set_name(set) + " ";
    wants(names == "0 1evens 2odds ", "all sets: " + names);
    wants(hvd::is_homogeneous(), "one host");
    wants(hvd::process_set_rank(other) == -1, "place in the other");
    for (int round = 0; round < 50; ++round) {
      // The halves are not in step with each other.
      if (rank % 2 == 0)
        for (int more = 0; more < 3; ++more) wants(sum_in(own, 1, "a") == 2, "sum in the set");
      std::vector<float> large(100'000, static_cast<float>(rank));
      const hvd::Handle handle = hvd::allreduce_async(large.data(), large.data(), large.size(),
                                                      hvd::ReduceOp::sum, {}, {"b", own});
      wants(sum_in({}, 1) == 4, "sum of all");
      hvd::synchronize(handle);
      wants(large.back() == static_cast<float>(2 * (rank % 2) + 2), "large sum in the set");
      std::int32_t gathered[2] = {};
      const std::int32_t mine = rank;
      hvd::allgather(&mine, gathered, 1, {"", own});
      wants(gathered[0] == rank % 2 && gathered[1] == rank % 2 + 2, "allgather");
      std::int32_t value = rank;
      hvd::broadcast(&value, 1, rank % 2 + 2, {"", own});
      wants(value == rank % 2 + 2, "broadcast of a rank of the job");
      hvd::barrier({"", own});
    }
    const std::string set = rank % 2 == 0 ? "'odds' (ranks 1, 3)" : "'evens' (ranks 0, 2)";
    wants(text_of([&] { sum_in(other, 1); }) ==
              "rank " + std::to_string(rank) + " is not in process set " + set,
          "not in it");
    wants(text_of([&] {
            float data = 0;
            hvd::broadcast(&data, 1, 1 - rank % 2, {"", own});
          }).find("is not in process set") != std::string::npos,
          "root outside");
    hvd::remove_process_set(hvd::process_set("odds"));
    wants(text_of([] { hvd::process_set("odds"); }) == "there is no process set named 'odds'",
          "removed");
    const hvd::ProcessSet gone = rank % 2 == 0 ? other : own;  // the odd ones
    wants(
        text_of([&] { sum_in(gone, 1); }) == "there is no process set 2; it may have been removed",
        "an operation of a removed set");
    wants(text_of([&] {
            float data = 0;
            hvd::allreduce_async(&data, &data, 1, hvd::ReduceOp::sum, {}, {"", {77}});
          }) == "there is no process set 77; it may have been removed",
          "an operation of a set that never was");
    const hvd::ProcessSet three = hvd::add_process_set({3, 1, 0});
    if (rank != 2) wants(sum_in(three, static_cast<float>(rank)) == 4, "a new set");
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("wrong process sets are refused", "[api][sets]") {
  all_well(MiniJob(2).run([](int rank) {
    hvd::init();
    const auto refused = [](const std::vector<int>& ranks, const std::string& name,
                            const std::string& words) {
      const std::string text = text_of([&] { hvd::add_process_set(ranks, name); });
      wants(text == words, text);
    };
    refused({}, "", "add_process_set: no ranks");
    refused({2}, "", "add_process_set: rank 2 is not a rank of 0 to 1");
    refused({-1}, "", "add_process_set: rank -1 is not a rank of 0 to 1");
    refused({1, 1}, "", "add_process_set: rank 1 is there twice");
    refused({1, 0}, "", "add_process_set: the global process set has the same ranks");
    refused({rank}, "",
            "add_process_set: rank 0 called it for process set 1 (ranks 0), but rank 1 for process "
            "set 1 (ranks 1)");
    hvd::add_process_set({1}, "one");
    refused({0}, "one", "add_process_set: there is a process set 'one' (ranks 1) already");
    refused({1}, "two", "add_process_set: process set 'one' (ranks 1) has the same ranks");
    const std::string text = text_of([] { hvd::remove_process_set({}); });
    wants(text == "remove_process_set: the global process set cannot be removed", text);
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("an error in a process set names ranks of the job", "[api][sets]") {
  all_well(MiniJob(3).run([](int rank) {
    hvd::init();
    const hvd::ProcessSet set = hvd::add_process_set({1, 2}, "two");
    if (rank > 0) {
      std::vector<float> data(4);
      const std::string text = text_of([&] {
        hvd::allreduce(data.data(), data.data(), rank == 1 ? 4 : 3, hvd::ReduceOp::sum, {},
                       {"x", set});
      });
      wants(text ==
                "'x': rank 1 called allreduce(float32, 4 elements, sum), but rank 2 called "
                "allreduce(float32, 3 elements, sum)",
            text);
      wants(sum_in(set, 1) == 2, "it goes on");
      std::int32_t value = rank;
      const std::string root = text_of([&] { hvd::broadcast(&value, 1, rank, {"r", set}); });
      wants(root ==
                "'r': rank 1 called broadcast(int32, 1 element, root 1), but rank 2 called "
                "broadcast(int32, 1 element, root 2)",
            root);
    }
    hvd::barrier();
    if (rank == 2) std::_Exit(0);  // without a goodbye
    const std::string lost = text_of([&] {
      if (rank == 1) sum_in(set, 1);
      if (rank == 0) hvd::barrier();
    });
    // Rank 1 ends then, and rank 0 may hear of that first.
    wants(lost.find(rank == 1 ? "rank 2 " : " is lost") != std::string::npos, lost);
    return std::string();
  }));
}

TEST_CASE("groups, names in any order, and join", "[api][sets]") {
  all_well(MiniJob(3).run([](int rank) {
    hvd::init();
    const int size = hvd::size();
    std::vector<std::vector<float>> data;
    for (int i = 0; i < 10; ++i) data.emplace_back(100 + i, 1.0F);
    std::vector<hvd::Buffer> group;
    for (auto& one : data) group.push_back({one.data(), one.data(), one.size()});
    std::vector<hvd::Handle> handles;
    const auto submit_group = [&] {
      handles.push_back(hvd::grouped_allreduce_async(group, hvd::DataType::float32,
                                                     hvd::ReduceOp::sum, {}, {"group"}));
    };
    std::vector<float> others(20, 2.0F);
    if (rank == 0) submit_group();
    for (int i = 0; i < 20; ++i) {
      const int at = rank == 1 ? 19 - i : i;
      float* const one = &others[static_cast<std::size_t>(at)];
      handles.push_back(
          hvd::allreduce_async(one, one, 1, hvd::ReduceOp::sum, {}, {"one " + std::to_string(at)}));
    }
    if (rank != 0) submit_group();
    for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
    for (const auto& one : data) wants(one.back() == static_cast<float>(size), "group");
    wants(std::count(others.begin(), others.end(), 6.0F) == 20, "others");
    hvd::grouped_allreduce(group, hvd::DataType::float32, hvd::ReduceOp::adasum);
    wants(data[0][0] == 3.0F, "adasum of equal vectors is the vector");
    wants(hvd::statistics().operations > 20, "statistics");
    for (int batch = 0; batch <= rank; ++batch)
      wants(sum_in({}, 1) == static_cast<float>(size - batch), "sum with joined ranks");
    wants(hvd::join() == size - 1, "join");
    hvd::shutdown();
    return std::string();
  }));
}
