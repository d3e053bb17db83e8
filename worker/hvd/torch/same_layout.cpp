#include "worker/hvd/torch/same_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>

#include "worker/hvd/torch/optimizer_name.h"

namespace hvdrun {
namespace {

// FNV-1a, 64 bit.
class Hash {
 public:
  void add(const std::string& text) {
    for (const char letter : text) add_byte(static_cast<unsigned char>(letter));
    add_byte('\n');
  }
  std::int64_t value() const { return static_cast<std::int64_t>(state_); }

 private:
  void add_byte(std::uint64_t byte) { state_ = (state_ ^ byte) * 0x100000001b3; }

  std::uint64_t state_ = 0xcbf29ce484222325;
};

// "1, 2, 3"
std::string joined(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) {
    if (!text.empty()) text += ", ";
    text += std::to_string(rank);
  }
  return text;
}

std::string line_of(const std::string& text, std::size_t number) {
  std::size_t begin = 0;
  for (; number > 0; --number) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) return {};
    begin = end + 1;
  }
  return text.substr(begin, text.find('\n', begin) - begin);
}

constexpr const char* kOptimizer = "DistributedOptimizer";
// The line of a rank that cannot make its optimizer, in place of its own.
constexpr const char* kRefuses = "!";

hvd::OperationOptions options_of(const char* call, const hvd::ProcessSet& set) {
  hvd::OperationOptions options{{}, set, {}};
  options.description = call;
  return options;
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) (text += line) += '\n';
  return text;
}

// "rank 0 has ..., but rank 1 has ...": the first line that differs.
std::string first_difference(int rank, const std::string& text, int other_rank,
                             const std::string& other_text) {
  const std::size_t most = text.size() + other_text.size();
  for (std::size_t i = 0; i < most; ++i) {
    const std::string ours = line_of(text, i);
    const std::string its = line_of(other_text, i);
    if (ours == its) continue;
    const auto words = [](const std::string& line) { return line.empty() ? "no more" : line; };
    return "rank " + std::to_string(rank) + " has " + words(ours) + ", but rank " +
           std::to_string(other_rank) + " has " + words(its);
  }
  return {};
}

// Every rank comes here, as all of them have seen the difference.
[[noreturn]] void tell_difference(const std::vector<std::string>& lines,
                                  const std::vector<int>& ranks,
                                  const std::vector<std::size_t>& others,
                                  const hvd::ProcessSet& set) {
  const std::vector<std::string> all =
      hvd::allgather_object(text_of(lines), options_of(kOptimizer, set));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string it = "DistributedOptimizer: rank " + std::to_string(ranks[rank]);
    if (all[rank].empty())
      throw hvd::Error(hvd::ErrorCode::mismatch,
                       it + " has joined (hvd::join); it takes all ranks");
    if (all[rank].rfind(kRefuses, 0) == 0)
      throw hvd::Error(hvd::ErrorCode::mismatch,
                       it + " cannot make its own: " + line_of(all[rank], 0).substr(1));
  }
  std::vector<int> names;
  names.reserve(others.size());
  for (const std::size_t other : others) names.push_back(ranks[other]);
  std::string text =
      "DistributedOptimizer: parameters, their order or the options differ between rank " +
      std::to_string(ranks.front()) + " and rank " + joined(names);
  const std::size_t other = others.front();
  const std::string difference =
      first_difference(ranks.front(), all.front(), ranks[other], all[other]);
  if (!difference.empty()) text += "; " + difference;
  throw hvd::Error(hvd::ErrorCode::mismatch, text);
}

bool contains(const std::vector<at::Tensor>& some, const at::Tensor& tensor) {
  return std::any_of(some.begin(), some.end(),
                     [&](const at::Tensor& one) { return one.is_same(tensor); });
}

std::string options_line(const hvd::DistributedOptimizerOptions& options,
                         const ParameterNames& names) {
  std::ostringstream line;
  line.precision(std::numeric_limits<double>::max_digits10);
  line << "op " << static_cast<int>(options.op) << ", bucket_bytes " << options.bucket_bytes
       << ", compression " << static_cast<int>(options.compression) << ", backward_passes_per_step "
       << options.backward_passes_per_step << ", average_aggregated_gradients "
       << options.average_aggregated_gradients << ", gradient_predivide_factor "
       << options.gradient_predivide_factor << ", scale_local_gradients "
       << options.scale_local_gradients << ", num_groups " << options.num_groups;
  for (const std::vector<at::Tensor>& group : options.groups) {
    line << ", a group";
    for (const at::Tensor& member : group) line << ' ' << names.of(member);
  }
  return line.str();
}

}  // namespace

std::int64_t hash_of(const std::vector<std::string>& lines) {
  Hash hash;
  for (const std::string& line : lines) hash.add(line);
  return hash.value();
}

std::vector<std::string> layout_of(const std::vector<at::Tensor>& parameters,
                                   const ParameterNames& names,
                                   const hvd::DistributedOptimizerOptions& options) {
  std::vector<std::string> lines;
  for (const at::Tensor& parameter : parameters) {
    std::ostringstream line;
    line << names.of(parameter) << " of " << at::toString(parameter.scalar_type()) << ' '
         << parameter.sizes();
    // As its gradient lies in the bucket (gradient_buckets.h).
    if (!parameter.is_contiguous() && parameter.is_non_overlapping_and_dense())
      line << " with strides " << parameter.strides();
    if (contains(options.sparse, parameter)) line << ", sparse";
    if (contains(options.local, parameter)) line << ", local";
    lines.push_back(line.str());
  }
  lines.push_back(options_line(options, names));
  return lines;
}

std::string confirm_same_layout(const std::vector<std::string>& lines, const hvd::ProcessSet& set) {
  constexpr std::size_t kSaid = 2;
  const std::array<std::int64_t, kSaid> mine{hash_of(lines), next_optimizer_number(set)};
  const std::vector<int> ranks = hvd::process_set_ranks(set);
  std::vector<std::int64_t> all(kSaid * ranks.size());
  hvd::allgather(mine.data(), all.data(), mine.size(), options_of(kOptimizer, set));
  std::vector<std::size_t> others;
  std::int64_t number = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (all[rank * kSaid] != all[0]) others.push_back(rank);
    number = std::max(number, all[rank * kSaid + 1]);
  }
  if (!others.empty()) tell_difference(lines, ranks, others, set);
  return optimizer_name(set, number);
}

void refuse_layout(const std::string& why, const hvd::ProcessSet& set) {
  const std::string prefix = "DistributedOptimizer: ";
  const std::string reason = why.rfind(prefix, 0) == 0 ? why.substr(prefix.size()) : why;
  try {
    confirm_same_layout({kRefuses + reason}, set);
  } catch (const hvd::Error&) {
    // The caller has a reason of its own.
  }
}

void confirm_same_lines(const char* call, const std::vector<std::string>& lines,
                        const hvd::ProcessSet& set) {
  const std::int64_t mine = hash_of(lines);
  const std::vector<int> ranks = hvd::process_set_ranks(set);
  std::vector<std::int64_t> all(ranks.size());
  hvd::allgather(&mine, all.data(), 1, options_of(call, set));
  constexpr std::int64_t kJoined = 0;  // nothing comes from such a rank
  const auto differs = [&](std::int64_t hash) { return hash != kJoined && hash != mine; };
  // Where two ranks' differ, everybody's differ from those of one of the two.
  if (std::none_of(all.begin(), all.end(), differs)) return;
  const std::vector<std::string> texts =
      hvd::allgather_object(text_of(lines), options_of(call, set));
  std::size_t first = 0;
  while (all[first] == kJoined) ++first;
  std::size_t other = first + 1;
  while (all[other] == kJoined || all[other] == all[first]) ++other;
  throw hvd::Error(hvd::ErrorCode::mismatch,
                   std::string(call) + ": " +
                       first_difference(ranks[first], texts[first], ranks[other], texts[other]));
}

}  // namespace hvdrun
