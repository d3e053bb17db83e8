// The tf.train.Example of a TFRecord: named features, each a list of byte strings, of floats or of
// integers. Only that message of protocol buffers, read in place.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

// Those of images have a dozen; a damaged record could announce millions of empty ones.
inline constexpr std::size_t kMaxFeatures = 10'000;

// One of the three has values; none of them in an empty feature.
struct Feature {
  std::vector<std::string_view> bytes;
  std::vector<float> floats;
  std::vector<std::int64_t> integers;
};

// In the order of the message; a name that comes twice counts as the last one, as everywhere.
class Example {
 public:
  // None when there is no feature of that name.
  const Feature* find(std::string_view name) const;
  void add(std::string_view name, Feature feature);
  const std::vector<std::pair<std::string_view, Feature>>& features() const { return features_; }

 private:
  std::vector<std::pair<std::string_view, Feature>> features_;
};

// The Example points into `bytes`. None, and `error` says what is wrong at which byte, when this is
// no Example.
std::optional<Example> parse_example(std::string_view bytes, std::string& error);
std::string encode_example(const Example& example);

}  // namespace hvdrun
