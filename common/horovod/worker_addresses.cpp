#include "common/horovod/worker_addresses.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "common/net/host_addresses.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxKey = 1024;

// With its padding, as Python writes it; a line's end behind it does no harm.
std::optional<std::string> decode_base64(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> static_cast<unsigned>(count)));
  }
  return bytes;
}

// Values refer to each other by number, as a pickle may have one twice.
struct Node {
  enum class Kind : std::uint8_t { text, bytes, number, list, tuple, dict, other } kind{};
  std::string text = {};  // or bytes
  std::int64_t number = 0;
  std::vector<std::size_t> items = {};  // of a dict keys and values in turn
};

class Unpickler {
 public:
  explicit Unpickler(std::string_view bytes) : bytes_(bytes) {}

  // The value's number in nodes().
  std::optional<std::size_t> run() {
    while (good_ && !bytes_.empty()) {
      const auto op = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      if (op == '.') {
        if (stack_.size() != 1 || stack_.back() == kMark) return std::nullopt;
        return stack_.back();
      }
      step(op);
    }
    return std::nullopt;
  }
  const Node& operator[](std::size_t number) const { return nodes_[number]; }

 private:
  using Kind = Node::Kind;
  static constexpr std::size_t kMark = static_cast<std::size_t>(-1);

  void step(unsigned char op) {
    switch (op) {
      case 0x80:  // PROTO
        number(1);
        break;
      case 0x95:  // FRAME
        number(8);
        break;
      case 0x94:  // MEMOIZE
        if (has(1)) memo_.push_back(stack_.back());
        break;
      case 'q':  // BINPUT
      case 'r':  // LONG_BINPUT
        put(number(op == 'q' ? 1 : 4));
        break;
      case 'h':  // BINGET
      case 'j':  // LONG_BINGET
        get(number(op == 'h' ? 1 : 4));
        break;
      case 'N':   // NONE
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push({.kind = Kind::other});
        break;
      case 'K':  // BININT1
      case 'M':  // BININT2
        push(
            {.kind = Kind::number, .number = static_cast<std::int64_t>(number(op == 'K' ? 1 : 2))});
        break;
      case 'J':  // BININT
        push({.kind = Kind::number, .number = static_cast<std::int32_t>(number(4))});
        break;
      case 0x8c:  // SHORT_BINUNICODE
      case 'X':   // BINUNICODE
        push({.kind = Kind::text, .text = take(number(op == 'X' ? 4 : 1))});
        break;
      case 'C':  // SHORT_BINBYTES
      case 'B':  // BINBYTES
        push({.kind = Kind::bytes, .text = take(number(op == 'B' ? 4 : 1))});
        break;
      case '}':
        push({.kind = Kind::dict});
        break;
      case ']':
        push({.kind = Kind::list});
        break;
      case ')':
        push({.kind = Kind::tuple});
        break;
      case '(':
        stack_.push_back(kMark);
        break;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        tuple(pop(op - 0x84U));
        break;
      case 't':
        tuple(pop_to_mark());
        break;
      case 'a':  // APPEND
        extend(pop(1), Kind::list);
        break;
      case 'e':  // APPENDS
        extend(pop_to_mark(), Kind::list);
        break;
      case 's':  // SETITEM
        extend(pop(2), Kind::dict);
        break;
      case 'u':  // SETITEMS
        extend(pop_to_mark(), Kind::dict);
        break;
      default:  // all that would call something, too
        good_ = false;
    }
    // A few bytes make no more than a few values.
    if (stack_.size() > WorkerAddresses::kMaxValue) good_ = false;
  }

  std::uint64_t number(std::size_t size) {
    const std::string bytes = take(size);
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i > 0; --i)
      value = (value << 8U) | static_cast<unsigned char>(bytes[i - 1]);
    return value;
  }
  std::string take(std::uint64_t size) {
    if (size > bytes_.size()) {
      good_ = false;
      return {};
    }
    std::string taken(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return taken;
  }
  bool has(std::size_t count) {
    good_ = good_ && stack_.size() >= count &&
            std::find(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end(), kMark) ==
                stack_.end();
    return good_;
  }
  void push(Node node) {
    if (!good_) return;
    nodes_.push_back(std::move(node));
    stack_.push_back(nodes_.size() - 1);
  }
  void put(std::uint64_t at) {
    if (at > memo_.size()) good_ = false;  // Python counts them up
    if (!has(1)) return;
    if (at == memo_.size()) memo_.push_back(0);
    memo_[at] = stack_.back();
  }
  void get(std::uint64_t at) {
    good_ = good_ && at < memo_.size();
    if (good_) stack_.push_back(memo_[at]);
  }
  std::vector<std::size_t> pop(std::size_t count) {
    if (!has(count)) return {};
    std::vector<std::size_t> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    return items;
  }
  std::vector<std::size_t> pop_to_mark() {
    const auto mark = std::find(stack_.rbegin(), stack_.rend(), kMark);
    good_ = good_ && mark != stack_.rend();
    if (!good_) return {};
    std::vector<std::size_t> items = pop(static_cast<std::size_t>(mark - stack_.rbegin()));
    stack_.pop_back();
    return items;
  }
  void tuple(std::vector<std::size_t> items) {
    push({.kind = Kind::tuple, .items = std::move(items)});
  }
  void extend(const std::vector<std::size_t>& items, Kind kind) {
    if (!has(1)) return;
    Node& node = nodes_[stack_.back()];
    good_ = node.kind == kind && (kind != Kind::dict || items.size() % 2 == 0);
    if (good_) node.items.insert(node.items.end(), items.begin(), items.end());
  }

  std::string_view bytes_;
  std::vector<Node> nodes_;
  std::vector<std::size_t> stack_;  // numbers of nodes, or kMark
  std::vector<std::size_t> memo_;
  bool good_ = true;
};

// ("10.0.0.1", 40000)
std::optional<HorovodEndpoint> endpoint_of(const Unpickler& values, const Node& pair) {
  if (pair.kind != Node::Kind::tuple || pair.items.size() != 2) return std::nullopt;
  const Node& address = values[pair.items[0]];
  const Node& port = values[pair.items[1]];
  if (address.kind != Node::Kind::text || port.kind != Node::Kind::number || port.number < 1 ||
      port.number > 65535 || !is_ip_address(address.text))
    return std::nullopt;
  return HorovodEndpoint{address.text, static_cast<std::uint16_t>(port.number)};
}

}  // namespace

std::optional<WorkerAddresses> read_worker_addresses(std::string_view value) {
  if (value.size() > WorkerAddresses::kMaxValue) return std::nullopt;
  const auto bytes = decode_base64(value);
  if (!bytes) return std::nullopt;
  Unpickler values(*bytes);
  const auto top = values.run();
  if (!top) return std::nullopt;
  const Node& pair = values[*top];
  if (pair.kind != Node::Kind::tuple || pair.items.size() != 2) return std::nullopt;
  const Node& interfaces = values[pair.items[0]];
  const Node& key = values[pair.items[1]];
  if (interfaces.kind != Node::Kind::dict || key.kind != Node::Kind::bytes || key.text.empty() ||
      key.text.size() > kMaxKey)
    return std::nullopt;
  WorkerAddresses found;
  found.key = key.text;
  for (std::size_t i = 1; i < interfaces.items.size(); i += 2) {
    const Node& list = values[interfaces.items[i]];
    if (list.kind != Node::Kind::list) return std::nullopt;
    for (const std::size_t item : list.items) {
      const auto endpoint = endpoint_of(values, values[item]);
      if (!endpoint) return std::nullopt;
      // A list may stand in many places, and costs a few bytes in each.
      if (found.endpoints.size() == WorkerAddresses::kMaxEndpoints) return found;
      found.endpoints.push_back(*endpoint);
    }
  }
  return found;
}

}  // namespace hvdrun
