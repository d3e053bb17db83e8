// Timelines for tests: batches as ranks send them, and a JSON parser that is not ours.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/wire/messages.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"

namespace hvdrun::test {

inline std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Python's answer about JSON texts: an expression over `texts`, the list of what they contain.
// Throws when one of them is not JSON.
inline std::string ask_json(const std::vector<std::string>& texts, const std::string& question) {
  const TemporaryFolder folder;
  std::string all;
  for (const std::string& text : texts) all += std::to_string(text.size()) + "\n" + text;
  folder.write("texts", all);
  folder.write("ask.py",
               "import json, sys\n"
               "def read():\n"
               "  with open(sys.argv[1], 'rb') as file:\n"
               "    while size := file.readline():\n"
               "      yield json.loads(file.read(int(size)).decode('utf-8'))\n"
               "texts = list(read())\n"
               "print(" +
                   question + ", end='')\n");
  const std::string answer = folder / "answer";
  const std::string command = "/usr/bin/python3 " + (folder / "ask.py") + " " + (folder / "texts") +
                              " >" + answer + " 2>&1";
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe)
  if (status != 0) throw std::runtime_error(file_text(answer));
  return file_text(answer);
}

// Events of one rank, in microseconds of its host's clock.
class TestBatch {
 public:
  explicit TestBatch(std::uint32_t rank, std::uint64_t begin_us = 0) {
    batch_.rank = rank;
    batch_.session = 1;
    events_.begin_ns = begin_us * 1000;
  }
  TestBatch& begin(std::uint32_t us, const std::string& tensor, TimelinePhase phase,
                   TimelineOp op = TimelineOp::none) {
    return add({us * 1000, number_of(tensor), TimelineMark::begin, phase, op});
  }
  TestBatch& end(std::uint32_t us, const std::string& tensor, TimelinePhase phase) {
    return add({us * 1000, number_of(tensor), TimelineMark::end, phase, TimelineOp::none});
  }
  TestBatch& gpu(std::uint32_t us, const std::string& tensor, bool begins,
                 TimelineOp op = TimelineOp::allreduce) {
    return add({us * 1000, number_of(tensor),
                begins ? TimelineMark::gpu_begin : TimelineMark::gpu_end, TimelinePhase::reduce,
                op});
  }
  TestBatch& cycle(std::uint32_t us) {
    return add({us * 1000, 0, TimelineMark::cycle, {}, TimelineOp::none});
  }
  TestBatch& add(TimelineEvent event) {
    events_.events.push_back(event);
    return *this;
  }
  TestBatch& dropped(std::uint64_t count) {
    batch_.dropped = count;
    return *this;
  }
  TestBatch& ahead(std::uint64_t us) {
    batch_.clock_add = us * 1000;
    return *this;
  }
  TestBatch& session(std::uint32_t number) {
    batch_.session = number;
    return *this;
  }
  operator TimelineBatch() {  // NOLINT(google-explicit-constructor): what it is
    batch_.count = static_cast<std::uint32_t>(events_.events.size());
    if (batch_.count > 0) batch_.bytes = encode(events_);
    return batch_;
  }

 private:
  std::uint16_t number_of(const std::string& tensor) {
    for (std::size_t i = 0; i < events_.names.size(); ++i)
      if (events_.names[i] == tensor) return static_cast<std::uint16_t>(i);
    events_.names.push_back(tensor);
    return static_cast<std::uint16_t>(events_.names.size() - 1);
  }
  TimelineBatch batch_;
  TimelineEvents events_;
};

}  // namespace hvdrun::test
