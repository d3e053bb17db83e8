#include "cli/openers/ssh/known_hosts.h"

#include <algorithm>
#include <cstring>

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace hvdrun {
namespace {

constexpr std::string_view kHashed = "|1|";
constexpr std::size_t kMaxKnownHostsLine = 16U << 10;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return result;
}

// The next word of a line, which is shortened by it.
std::string_view take_word(std::string_view& line) {
  const auto begin = std::min(line.find_first_not_of(" \t"), line.size());
  line.remove_prefix(begin);
  const auto end = std::min(line.find_first_of(" \t"), line.size());
  const std::string_view word = line.substr(0, end);
  line.remove_prefix(end);
  return word;
}

// `*` and `?`, in time that grows with the product of the lengths at most.
bool fits(std::string_view name, std::string_view pattern) {
  std::size_t n = 0;
  std::size_t p = 0;
  std::size_t star = std::string_view::npos;
  std::size_t mark = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      mark = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++mark;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string hmac_sha1(std::string_view salt, std::string_view name) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (HMAC(EVP_sha1(), salt.data(), static_cast<int>(salt.size()),
           reinterpret_cast<const unsigned char*>(name.data()), name.size(), digest,
           &size) == nullptr)
    return {};
  return {reinterpret_cast<const char*>(digest), size};
}

bool names_host(std::string_view hosts, std::string_view name) {
  if (hosts.starts_with(kHashed)) {
    hosts.remove_prefix(kHashed.size());
    const auto bar = hosts.find('|');
    if (bar == std::string_view::npos) return false;
    const std::string salt = from_base64(hosts.substr(0, bar));
    const std::string hash = from_base64(hosts.substr(bar + 1));
    return !salt.empty() && !hash.empty() && hmac_sha1(salt, name) == hash;
  }
  bool found = false;
  while (!hosts.empty()) {
    const auto end = std::min(hosts.find(','), hosts.size());
    std::string pattern = lower(hosts.substr(0, end));
    hosts.remove_prefix(std::min(end + 1, hosts.size()));
    const bool negated = pattern.starts_with('!');
    if (!fits(name, std::string_view(pattern).substr(negated ? 1 : 0))) continue;
    if (negated) return false;
    found = true;
  }
  return found;
}

}  // namespace

KnownHostName known_host_name(std::string_view host, std::uint16_t port, std::string_view alias) {
  if (!alias.empty()) return {lower(alias), ""};
  const std::string name = lower(host);
  if (port == 22) return {name, ""};
  return {"[" + name + "]:" + std::to_string(port), name};
}

void KnownHosts::add(const std::string& file, std::string_view text) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    add_line(text.substr(0, end), file + ":" + std::to_string(number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void KnownHosts::add_line(std::string_view line, std::string where) {
  if (line.size() > kMaxKnownHostsLine) return;
  if (line.ends_with('\r')) line.remove_suffix(1);
  Entry entry;
  entry.marker = Marker::none;
  std::string_view word = take_word(line);
  if (word.empty() || word.starts_with('#')) return;
  if (word.starts_with('@')) {
    if (word != "@revoked" && word != "@cert-authority") return;
    entry.marker = word == "@revoked" ? Marker::revoked : Marker::authority;
    word = take_word(line);
  }
  entry.hosts = word;
  entry.type = take_word(line);
  entry.key = from_base64(take_word(line));
  entry.where = std::move(where);
  if (!entry.key.empty() && key_type(entry.key) == entry.type) entries_.push_back(std::move(entry));
}

KnownHosts::Verdict KnownHosts::check_name(std::string_view name, std::string_view key,
                                           std::string& where) const {
  Verdict verdict = Verdict::unknown;
  for (const Entry& entry : entries_) {
    if (entry.marker == Marker::authority || !names_host(entry.hosts, name)) continue;
    const bool same = entry.key == key;
    if (entry.marker == Marker::revoked) {
      if (!same) continue;
      where = entry.where;
      return Verdict::revoked;
    }
    if (same) {
      verdict = Verdict::known;
      where = entry.where;
    } else if (verdict == Verdict::unknown) {
      verdict = Verdict::changed;
      where = entry.where;
    }
  }
  return verdict;
}

KnownHosts::Verdict KnownHosts::check(const KnownHostName& host, std::string_view key,
                                      std::string& where) const {
  const Verdict verdict = check_name(host.name, key, where);
  if (host.without_port.empty() || verdict == Verdict::revoked) return verdict;
  std::string elsewhere;
  const Verdict plain = check_name(host.without_port, key, elsewhere);
  const bool counts =
      plain == Verdict::revoked || (plain == Verdict::known && verdict == Verdict::unknown);
  if (!counts) return verdict;
  where = elsewhere;
  return plain;
}

std::vector<std::string> KnownHosts::types(const KnownHostName& host) const {
  std::vector<std::string> types;
  for (const std::string& name : {host.name, host.without_port}) {
    if (name.empty() || !types.empty()) continue;
    for (const Entry& entry : entries_)
      if (entry.marker == Marker::none && names_host(entry.hosts, name) &&
          std::find(types.begin(), types.end(), entry.type) == types.end())
        types.push_back(entry.type);
  }
  return types;
}

bool KnownHosts::has_authority(const KnownHostName& host) const {
  return std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.marker == Marker::authority &&
           (names_host(entry.hosts, host.name) ||
            (!host.without_port.empty() && names_host(entry.hosts, host.without_port)));
  });
}

std::string key_type(std::string_view key) {
  if (key.size() < 4) return {};
  std::uint32_t size = 0;
  for (int i = 0; i < 4; ++i) size = size << 8 | static_cast<unsigned char>(key[std::size_t(i)]);
  if (size == 0 || size > 64 || size > key.size() - 4) return {};
  return std::string(key.substr(4, size));
}

std::string key_fingerprint(std::string_view key) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(key.data(), key.size(), digest, &size, EVP_sha256(), nullptr) != 1) return {};
  std::string text = to_base64({reinterpret_cast<const char*>(digest), size});
  while (text.ends_with('=')) text.pop_back();
  return "SHA256:" + text;
}

std::string known_hosts_line(const KnownHostName& host, std::string_view key,
                             std::string_view salt) {
  const std::string name = salt.empty() ? host.name
                                        : std::string(kHashed) + to_base64(salt) + "|" +
                                              to_base64(hmac_sha1(salt, host.name));
  return name + " " + key_type(key) + " " + to_base64(key);
}

std::string to_base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return {};
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  if (size < 0) return {};
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

}  // namespace hvdrun
