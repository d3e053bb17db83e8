#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/records.h"
#include "worker/labs/report/epoch_records.h"

namespace hvdrun {
namespace {

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

EpochResult some_result() { return {2, 250, {0.5, 0.75, 4000}, 2.0, 2000, 0.04, std::nullopt}; }

TEST_CASE("an epoch is one object of JSON", "[records]") {
  EpochResult result = some_result();
  CHECK(json_line(result) ==
        "{\"epoch\": 2, \"steps\": 250, \"loss\": 0.5, \"accuracy\": 0.75, \"seconds\": 2, "
        "\"images_per_second\": 2000, \"lr\": 0.04}\n");
  result.train.loss = NAN;
  result.validation = Score{INFINITY, 0.25, 1};
  CHECK(json_line(result) ==
        "{\"epoch\": 2, \"steps\": 250, \"loss\": null, \"accuracy\": 0.75, \"seconds\": 2, "
        "\"images_per_second\": 2000, \"lr\": 0.04, \"validation_loss\": null, "
        "\"validation_accuracy\": 0.25}\n");
}

// Written down from the definition of tensorflow.Event: wall_time = 1, step = 2, file_version = 3,
// summary = 5 { value = 1 { tag = 1, simple_value = 2 } }.
TEST_CASE("events are those of TensorBoard", "[records]") {
  CHECK(first_event(1.5) == std::string("\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d", 11) + "brain.Event:2");
  CHECK(scalar_event(1.5, 300, "a/b", 0.5F) ==
        std::string("\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02\x2a\x0c\x0a\x0a\x0a\x03"
                    "a/b\x15\0\0\0\x3f",
                    26));
}

TEST_CASE("records are read back, and a resumed run goes on in its metrics", "[records]") {
  const test::TemporaryFolder folder;
  const std::string metrics = folder / "m.json";
  const std::string logs = folder / "a/b";
  std::string error;
  for (const bool resumed : {false, true}) {
    EpochRecords records;
    REQUIRE(records.open(metrics, logs, resumed, error));
    REQUIRE(records.add(some_result(), error));
    // Before it is closed.
    CHECK(text_of(metrics) == (resumed ? json_line(some_result()) : "") + json_line(some_result()));
  }
  {
    EpochRecords records;
    REQUIRE(records.open(metrics, "", false, error));
    CHECK(text_of(metrics).empty());
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(logs)) {
    ++files;
    CHECK(entry.path().filename().string().rfind("events.out.tfevents.", 0) == 0);
    const auto file = RecordFile::open(entry.path(), error);
    REQUIRE(file);
    REQUIRE(file->size() == 5);
    for (std::size_t i = 0; i < file->size(); ++i) {
      const auto event = file->read(i, error);  // its checksums too
      REQUIRE(event);
      const char* const tags[] = {"brain.Event:2", "train/loss", "train/accuracy",
                                  "train/images_per_second", "train/learning_rate"};
      CHECK(event->find(tags[i]) != std::string::npos);
    }
  }
  CHECK(files >= 1);
}

TEST_CASE("what cannot be written is named", "[records]") {
  const test::TemporaryFolder folder;
  std::string error;
  CHECK_FALSE(EpochRecords().open("/nonexistent/m", "", false, error));
  CHECK(error == "/nonexistent/m: No such file or directory");
  folder.write("file", "x");
  CHECK_FALSE(EpochRecords().open("", folder / "file/logs", false, error));
  CHECK(error == folder / "file/logs: Not a directory");
  EpochRecords records;
  REQUIRE(records.open("/dev/full", "", false, error));
  CHECK_FALSE(records.add(some_result(), error));
  CHECK(error == "/dev/full: No space left on device");
}

}  // namespace
}  // namespace hvdrun
