#include "cli/hosts/host_item.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <netinet/in.h>
#include <utility>

#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr std::string_view kExample = "; write host:slots, as in gpu1:4,gpu2:4";
constexpr std::string_view kPortExample =
    "; write host:slots or host:port:slots, hosts separated by ','";
constexpr std::string_view kRangeExample = "; write a range as in node[01-16]:4 or node[1,3,5-7]:4";
constexpr std::string_view kAddressExample = "; write an IPv6 address as in [fd00::1]:4";
constexpr std::size_t kMaxRangeDigits = 9;
constexpr std::size_t kMaxZone = 15;  // an interface's name
constexpr std::uint32_t kMaxPort = 65535;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '-' ||
         c == '_';
}

bool is_user_char(char c) { return is_name_char(c) || c == '+' || c == '@'; }

bool is_name(std::string_view text) { return std::all_of(text.begin(), text.end(), is_name_char); }

// "1,3,05-16": a first number with a leading zero gives all of its range that many digits.
bool expand_brackets(std::string_view text, std::vector<std::string>& parts) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const auto dash = part.find('-');
    const std::string_view first = part.substr(0, dash);
    const std::string_view last = dash == part.npos ? first : part.substr(dash + 1);
    std::uint32_t low = 0;
    std::uint32_t high = 0;
    if (first.size() > kMaxRangeDigits || last.size() > kMaxRangeDigits ||
        !parse_host_count(first, low) || !parse_host_count(last, high) || high < low)
      return false;
    if (high - low >= limits::kMaxHosts || parts.size() > limits::kMaxHosts) return false;
    for (std::uint32_t number = low; number <= high; ++number) {
      std::string digits = std::to_string(number);
      if (first.front() == '0' && digits.size() < first.size())
        digits.insert(0, first.size() - digits.size(), '0');
      parts.push_back(std::move(digits));
    }
  }
  return true;
}

class ItemParser {
 public:
  ItemParser(std::string_view text, HostItem& item) : text_(text), item_(item) {}

  std::string parse() {
    if (text_.empty()) return "an empty item in the list of hosts" + std::string(kExample);
    if (text_.find_first_of(" \t") != std::string_view::npos)
      return "a blank in " + quoted_word(text_) +
             "; separate hosts by commas only, as in gpu1:4,gpu2:4";
    std::string_view rest = text_;
    // The last one: a user may be of a domain.
    if (const auto at = text_.rfind('@'); at != std::string_view::npos) {
      if (std::string problem = take_user(text_.substr(0, at)); !problem.empty()) return problem;
      rest = text_.substr(at + 1);
    }
    if (std::all_of(rest.begin(), rest.end(), is_digit) && !rest.empty())
      return quoted_word(text_) + " is a number and no host" + std::string(kExample);
    std::string problem = is_address(rest) ? take_address(rest) : take_names(rest);
    return problem.empty() ? take_numbers(rest) : problem;
  }

 private:
  std::string fault(const std::string& what, std::string_view instead) const {
    return what + " in " + quoted_word(text_) + std::string(instead);
  }

  static bool is_address(std::string_view rest) {
    if (!rest.starts_with('[')) return false;
    return rest.substr(0, rest.find(']')).find(':') != std::string_view::npos;
  }

  std::string take_user(std::string_view user) {
    if (user.empty()) return fault("no user name before the '@'", "; write user@host:slots");
    if (user.front() == '-') return "a user name must not begin with '-': " + quoted_word(text_);
    if (!std::all_of(user.begin(), user.end(), is_user_char))
      return fault("a character that user names do not have",
                   "; such a name belongs into ~/.ssh/config");
    if (user.size() > limits::kMaxUserName)
      return fault("a user name of " + std::to_string(user.size()) + " characters", "");
    item_.login.user = user;
    return {};
  }

  // Each takes its part from the front of `rest`.
  std::string take_address(std::string_view& rest) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) return fault("no ']'", kAddressExample);
    const std::string_view inside = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    const auto percent = std::min(inside.find('%'), inside.size());
    const std::string_view zone = inside.substr(percent);
    in6_addr address{};
    if (::inet_pton(AF_INET6, std::string(inside.substr(0, percent)).c_str(), &address) != 1 ||
        zone.size() == 1 || zone.size() > kMaxZone + 1 ||
        (!zone.empty() && !is_name(zone.substr(1))))
      return fault("what stands in the brackets is no IPv6 address", kAddressExample);
    if (!rest.empty() && rest.front() != ':')
      return fault("something between ']' and ':'", kAddressExample);
    // One spelling for each address.
    char spelled[INET6_ADDRSTRLEN] = {};
    ::inet_ntop(AF_INET6, &address, spelled, sizeof spelled);
    item_.names = {spelled + std::string(zone)};
    return {};
  }

  std::string take_names(std::string_view& rest) {
    const auto bracket = rest.rfind(']');
    const auto colons = static_cast<std::size_t>(std::count(rest.begin(), rest.end(), ':'));
    if (bracket == std::string_view::npos &&
        (rest.find("::") != std::string_view::npos ||
         (colons > 2 && rest.find_first_not_of("0123456789abcdefABCDEF:") == rest.npos)))
      return fault("an IPv6 address without brackets", kAddressExample);
    const auto colon = std::min(rest.find(':', bracket == rest.npos ? 0 : bracket), rest.size());
    const std::string_view names = rest.substr(0, colon);
    rest.remove_prefix(colon);
    if (names.empty()) return fault("no host name", kExample);
    if (names.front() == '-') return "a host name must not begin with '-': " + quoted_word(text_);
    return expand(names);
  }

  // Nothing, ":slots" or ":port:slots".
  std::string take_numbers(std::string_view rest) {
    if (rest.empty()) return {};
    rest.remove_prefix(1);
    if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
      const std::string_view port = rest.substr(0, colon);
      rest.remove_prefix(colon + 1);
      if (rest.find(':') != std::string_view::npos) return fault("too many ':'", kPortExample);
      std::uint32_t number = 0;
      if (!parse_host_count(port, number) || number == 0 || number > kMaxPort)
        return fault(quoted_word(port) + " is no port", kPortExample);
      item_.login.port = static_cast<std::uint16_t>(number);
    }
    std::uint32_t slots = 0;
    if (!parse_host_count(rest, slots))
      return fault("the number of slots is missing or not a number", kExample);
    if (slots > limits::kMaxSlotsPerHost)
      return fault("more than " + std::to_string(limits::kMaxSlotsPerHost) + " slots",
                   item_.login.port == 0 ? "; a port stands before them: host:port:slots" : "");
    item_.slots = slots;
    return {};
  }

  std::string expand(std::string_view name) {
    std::vector<std::string> names = {""};
    for (std::size_t i = 0; i < name.size();) {
      if (name[i] != '[') {
        const auto end = std::min(name.find('[', i), name.size());
        const std::string_view part = name.substr(i, end - i);
        if (!is_name(part)) return fault("a character that no host name has", kExample);
        for (std::string& known : names) known += part;
        i = end;
        continue;
      }
      const auto end = name.find(']', i);
      std::vector<std::string> parts;
      if (end == std::string_view::npos || !expand_brackets(name.substr(i + 1, end - i - 1), parts))
        return "what stands in the brackets of " + quoted_word(text_) +
               " is not a range of numbers" + std::string(kRangeExample);
      if (names.size() * parts.size() > limits::kMaxHosts)
        return "more than " + std::to_string(limits::kMaxHosts) + " hosts";
      std::vector<std::string> product;
      for (const std::string& known : names)
        for (const std::string& part : parts) product.push_back(known + part);
      names = std::move(product);
      i = end + 1;
    }
    if (names.front().size() > limits::kMaxHostName)
      return "a host name of " + std::to_string(names.front().size()) + " characters" +
             std::string(kExample);
    item_.names = std::move(names);
    return {};
  }

  std::string_view text_;
  HostItem& item_;
};

}  // namespace

bool parse_host_count(std::string_view text, std::uint32_t& number) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return false;
  if (std::from_chars(text.data(), text.data() + text.size(), number).ec != std::errc())
    number = 0xffffffffU;
  return true;
}

std::string spell_host(const std::string& name, const HostLogin& login) {
  std::string text = login.user.empty() ? "" : login.user + "@";
  text += name.find(':') == std::string::npos ? name : "[" + name + "]";
  return login.port == 0 ? text : text + ":" + std::to_string(login.port);
}

std::string parse_host_item(std::string_view text, HostItem& item) {
  return ItemParser(text, item).parse();
}

}  // namespace hvdrun
