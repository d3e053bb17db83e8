#include "worker/labs/report/epoch_records.h"

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "worker/labs/data/files/records.h"

namespace hvdrun {
namespace {

void append_number(std::string& json, const char* key, double value) {
  char text[40];
  std::snprintf(text, sizeof(text), std::isfinite(value) ? "%.9g" : "null", value);
  json.append(json.size() == 1 ? "\"" : ", \"").append(key).append("\": ").append(text);
}

void append_count(std::string& json, const char* key, std::int64_t value) {
  json.append(json.size() == 1 ? "\"" : ", \"").append(key).append("\": ");
  json.append(std::to_string(value));
}

// Protocol buffers: a key of field number and kind, then the value.
constexpr unsigned kVarint = 0;
constexpr unsigned kFixed64 = 1;
constexpr unsigned kBytes = 2;
constexpr unsigned kFixed32 = 5;

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80U);
  to += static_cast<char>(value);
}

void put_key(std::string& to, unsigned field, unsigned kind) { put_varint(to, field << 3 | kind); }

void put_bytes(std::string& to, unsigned field, std::string_view bytes) {
  put_key(to, field, kBytes);
  put_varint(to, bytes.size());
  to.append(bytes);
}

template <typename T>
void put_fixed(std::string& to, unsigned field, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  put_key(to, field, sizeof(T) == 4 ? kFixed32 : kFixed64);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));  // hosts are little-endian
  to.append(bytes, sizeof(T));
}

// Fields of tensorflow.Event and of what is in it.
constexpr unsigned kWallTime = 1;
constexpr unsigned kStep = 2;
constexpr unsigned kFileVersion = 3;
constexpr unsigned kSummary = 5;
constexpr unsigned kSummaryValue = 1;
constexpr unsigned kTag = 1;
constexpr unsigned kSimpleValue = 2;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string host_name() {
  char name[256] = "";
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

}  // namespace

std::string json_line(const EpochResult& result) {
  std::string json = "{";
  append_count(json, "epoch", result.epoch);
  append_count(json, "steps", result.steps);
  append_number(json, "loss", result.train.loss);
  append_number(json, "accuracy", result.train.accuracy);
  append_number(json, "seconds", result.seconds);
  append_number(json, "images_per_second", result.images_per_second);
  append_number(json, "lr", result.lr);
  if (result.validation) {
    append_number(json, "validation_loss", result.validation->loss);
    append_number(json, "validation_accuracy", result.validation->accuracy);
  }
  return json + "}\n";
}

std::string first_event(double wall_time) {
  std::string event;
  put_fixed(event, kWallTime, wall_time);
  put_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

std::string scalar_event(double wall_time, std::int64_t step, std::string_view tag, float value) {
  std::string scalar;
  put_bytes(scalar, kTag, tag);
  put_fixed(scalar, kSimpleValue, value);
  std::string summary;
  put_bytes(summary, kSummaryValue, scalar);
  std::string event;
  put_fixed(event, kWallTime, wall_time);
  put_key(event, kStep, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  put_bytes(event, kSummary, summary);
  return event;
}

bool EpochRecords::open(const std::string& metrics_file, const std::string& log_dir, bool resumed,
                        std::string& error) {
  if (!metrics_file.empty() &&
      !metrics_.open(metrics_file, resumed ? Begin::at_end : Begin::anew, error))
    return false;
  if (log_dir.empty()) return true;
  std::error_code trouble;
  std::filesystem::create_directories(log_dir, trouble);
  if (trouble) {
    error = log_dir + ": " + trouble.message();
    return false;
  }
  const double now = seconds_since_1970();
  // The pid: a run that is resumed within the second must not write into the old file.
  const std::string name = log_dir + "/events.out.tfevents." +
                           std::to_string(static_cast<std::int64_t>(now)) + "." + host_name() +
                           "." + std::to_string(::getpid());
  return events_.open(name, Begin::anew, error) &&
         events_.write(encode_record(first_event(now)), error);
}

bool EpochRecords::add(const EpochResult& result, std::string& error) {
  if (metrics_.is_open() && !metrics_.write(json_line(result), error)) return false;
  if (!events_.is_open()) return true;
  const double now = seconds_since_1970();
  std::string bytes;
  const auto put = [&](std::string_view tag, double value) {
    bytes += encode_record(scalar_event(now, result.steps, tag, static_cast<float>(value)));
  };
  put("train/loss", result.train.loss);
  put("train/accuracy", result.train.accuracy);
  put("train/images_per_second", result.images_per_second);
  put("train/learning_rate", result.lr);
  if (result.validation) {
    put("validation/loss", result.validation->loss);
    put("validation/accuracy", result.validation->accuracy);
  }
  return events_.write(bytes, error);
}

}  // namespace hvdrun
