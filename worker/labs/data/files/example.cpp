#include "worker/labs/data/files/example.h"

#include <cstring>

namespace hvdrun {
namespace {

enum class Wire : unsigned { varint = 0, fixed64 = 1, length = 2, fixed32 = 5 };

// A field's number and how its value is encoded.
struct Tag {
  std::uint64_t field = 0;
  Wire wire = Wire::varint;
};

// The fields of a message one after the other. What is wrong is an exception within this file: the
// messages are nested four deep.
class Reader {
 public:
  // `whole`: what positions in errors count from.
  Reader(std::string_view bytes, std::string_view whole)
      : at_(bytes.data()), end_(bytes.data() + bytes.size()), begin_(whole.data()), whole_(whole) {}

  bool done() const { return at_ == end_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == end_) fail("a number is cut off");
      const auto byte = static_cast<unsigned char>(*at_++);
      if (shift == 63 && byte > 1) fail("a number of more than 64 bits");
      value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
      if (byte < 0x80) return value;
    }
    fail("a number of more than 64 bits");
  }

  std::string_view take(std::uint64_t bytes) {
    if (bytes > static_cast<std::uint64_t>(end_ - at_))
      fail(std::to_string(bytes) + " bytes announced, " + std::to_string(end_ - at_) + " left");
    const std::string_view taken(at_, static_cast<std::size_t>(bytes));
    at_ += bytes;
    return taken;
  }

  Tag tag() {
    const std::uint64_t value = varint();
    return {value >> 3, static_cast<Wire>(value & 7)};
  }

  // A value that is a message, a string or packed numbers.
  Reader message(const Tag& tag) { return {bytes(tag), whole_}; }
  std::string_view bytes(const Tag& tag) {
    if (tag.wire != Wire::length) fail("field " + std::to_string(tag.field) + " of another type");
    return take(varint());
  }

  // A field that is not ours.
  void skip(const Tag& tag) {
    switch (tag.wire) {
      case Wire::varint:
        varint();
        return;
      case Wire::fixed64:
        take(8);
        return;
      case Wire::length:
        take(varint());
        return;
      case Wire::fixed32:
        take(4);
        return;
    }
    fail("a field of unknown encoding");
  }

  float fixed_float() {
    const std::string_view raw = take(4);
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(raw[i]);
    float result = 0;
    std::memcpy(&result, &value, sizeof result);
    return result;
  }

  [[noreturn]] void fail(const std::string& text) const {
    throw Wrong{"not a tf.train.Example: byte " + std::to_string(at_ - begin_) + ": " + text};
  }
  struct Wrong {
    std::string text;
  };

 private:
  const char* at_;
  const char* end_;
  const char* begin_;
  std::string_view whole_;
};

// Calls `take` with every field `number` of the message and passes over the others.
template <class Take>
void each(Reader message, std::uint64_t number, const Take& take) {
  while (!message.done()) {
    const Tag tag = message.tag();
    if (tag.field == number)
      take(message, tag);
    else
      message.skip(tag);
  }
}

void read_floats(Reader list, std::vector<float>& floats) {
  each(list, 1, [&](Reader& message, const Tag& tag) {
    if (tag.wire == Wire::fixed32) return floats.push_back(message.fixed_float());
    for (Reader packed = message.message(tag); !packed.done();)
      floats.push_back(packed.fixed_float());
  });
}

void read_integers(Reader list, std::vector<std::int64_t>& integers) {
  each(list, 1, [&](Reader& message, const Tag& tag) {
    if (tag.wire == Wire::varint)
      return integers.push_back(static_cast<std::int64_t>(message.varint()));
    for (Reader packed = message.message(tag); !packed.done();)
      integers.push_back(static_cast<std::int64_t>(packed.varint()));
  });
}

Feature read_feature(Reader message) {
  Feature feature;
  while (!message.done()) {
    const Tag tag = message.tag();
    if (tag.field == 1)
      each(message.message(tag), 1,
           [&](Reader& list, const Tag& value) { feature.bytes.push_back(list.bytes(value)); });
    else if (tag.field == 2)
      read_floats(message.message(tag), feature.floats);
    else if (tag.field == 3)
      read_integers(message.message(tag), feature.integers);
    else
      message.skip(tag);
  }
  return feature;
}

void put_varint(std::string& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
}

void put_bytes(std::string& bytes, unsigned field, std::string_view value) {
  put_varint(bytes, field << 3 | static_cast<unsigned>(Wire::length));
  put_varint(bytes, value.size());
  bytes.append(value);
}

std::string encode_feature(const Feature& feature) {
  std::string values;
  std::string list;
  if (!feature.bytes.empty()) {
    for (const std::string_view one : feature.bytes) put_bytes(list, 1, one);
    put_bytes(values, 1, list);
  } else if (!feature.floats.empty()) {
    std::string packed;
    for (const float one : feature.floats) {
      std::uint32_t raw = 0;
      std::memcpy(&raw, &one, sizeof raw);
      for (int shift = 0; shift < 32; shift += 8)
        packed.push_back(static_cast<char>(raw >> shift & 0xff));
    }
    put_bytes(list, 1, packed);
    put_bytes(values, 2, list);
  } else if (!feature.integers.empty()) {
    std::string packed;
    for (const std::int64_t one : feature.integers)
      put_varint(packed, static_cast<std::uint64_t>(one));
    put_bytes(list, 1, packed);
    put_bytes(values, 3, list);
  }
  return values;
}

}  // namespace

const Feature* Example::find(std::string_view name) const {
  for (auto one = features_.rbegin(); one != features_.rend(); ++one)
    if (one->first == name) return &one->second;
  return nullptr;
}

void Example::add(std::string_view name, Feature feature) {
  features_.emplace_back(name, std::move(feature));
}

std::optional<Example> parse_example(std::string_view bytes, std::string& error) {
  Example example;
  try {
    each(Reader(bytes, bytes), 1, [&](Reader& message, const Tag& features) {
      each(message.message(features), 1, [&](Reader& list, const Tag& entry) {
        if (example.features().size() == kMaxFeatures)
          list.fail("more than " + std::to_string(kMaxFeatures) + " features");
        std::string_view name;
        Feature feature;
        Reader pair = list.message(entry);
        while (!pair.done()) {
          const Tag tag = pair.tag();
          if (tag.field == 1)
            name = pair.bytes(tag);
          else if (tag.field == 2)
            feature = read_feature(pair.message(tag));
          else
            pair.skip(tag);
        }
        example.add(name, std::move(feature));
      });
    });
  } catch (const Reader::Wrong& wrong) {
    error = wrong.text;
    return std::nullopt;
  }
  return example;
}

std::string encode_example(const Example& example) {
  std::string features;
  for (const auto& [name, feature] : example.features()) {
    std::string entry;
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, encode_feature(feature));
    put_bytes(features, 1, entry);
  }
  std::string bytes;
  put_bytes(bytes, 1, features);
  return bytes;
}

}  // namespace hvdrun
