#include "cli/openers/ssh/ssh_choice.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "cli/openers/ssh/key_file.h"

namespace hvdrun {
namespace {

using Words = std::vector<std::string>;

// Words that libssh2 1.10 knows and that are still good, in our order.
const Words& known_kex() {
  static const Words words{"curve25519-sha256",
                           "curve25519-sha256@libssh.org",
                           "ecdh-sha2-nistp256",
                           "ecdh-sha2-nistp384",
                           "ecdh-sha2-nistp521",
                           "diffie-hellman-group16-sha512",
                           "diffie-hellman-group18-sha512",
                           "diffie-hellman-group14-sha256",
                           "diffie-hellman-group-exchange-sha256"};
  return words;
}
const Words& known_ciphers() {
  static const Words words{"aes128-ctr", "aes192-ctr", "aes256-ctr"};
  return words;
}
const Words& known_macs() {
  static const Words words{"hmac-sha2-256", "hmac-sha2-512"};
  return words;
}
// RSA only with SHA-1, which no sshd of today takes.
const Words& known_keys() {
  static const Words words{"ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
                           "ecdsa-sha2-nistp521"};
  return words;
}

struct Feature {
  std::string_view keyword;
  std::string_view name;
};
// Each is a reason for the client when it is set.
constexpr auto kFeatures = std::to_array<Feature>({
    {"proxyjump", "ProxyJump"},
    {"proxycommand", "ProxyCommand"},
    {"certificatefile", "CertificateFile"},
    {"pkcs11provider", "PKCS11Provider"},
    {"hostbasedauthentication", "HostbasedAuthentication"},
    {"knownhostscommand", "KnownHostsCommand"},
    {"revokedhostkeys", "RevokedHostKeys"},
    {"verifyhostkeydns", "VerifyHostKeyDNS"},
    {"nohostauthenticationforlocalhost", "NoHostAuthenticationForLocalhost"},
    {"bindaddress", "BindAddress"},
    {"bindinterface", "BindInterface"},
    {"compression", "Compression"},
    {"forwardagent", "ForwardAgent"},
    {"forwardx11", "ForwardX11"},
    {"permitlocalcommand", "PermitLocalCommand"},
    {"remotecommand", "RemoteCommand"},
    {"setenv", "SetEnv"},
    {"tunnel", "Tunnel"},
    {"stdinnull", "StdinNull"},
    {"forkafterauthentication", "ForkAfterAuthentication"},
});

bool has(const Words& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::string joined(const Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

// Those of the configuration that libssh2 knows, in the configuration's order.
Words common_words(const SshConfig& config, std::string_view keyword, const Words& known) {
  const Words wanted = config.words(keyword, ',');
  if (wanted.empty()) return known;
  Words common;
  for (const std::string& word : wanted)
    if (has(known, word)) common.push_back(word);
  return common;
}

std::string expanded(const std::string& path, const std::string& home) {
  return path.starts_with("~/") ? home + path.substr(1) : path;
}

// A whole number of at least 1; nothing: "none", or none at all.
std::optional<std::uint32_t> number_of(const SshConfig& config, std::string_view keyword) {
  constexpr std::uint32_t kMost = 1'000'000;
  const std::string_view text = config.value(keyword);
  std::uint32_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc() || end != text.data() + text.size() || number == 0) return std::nullopt;
  return std::min(number, kMost);
}

// Fills `target`, or names the configuration's word that libssh2 cannot honour.
std::string read_connection(const SshConfig& config, Libssh2Target& target) {
  for (const Feature& feature : kFeatures)
    if (config.is_set(feature.keyword))
      return "its ssh configuration has " + std::string(feature.name);
  if (const auto limit = config.value("rekeylimit"); !limit.empty() && limit != "0 0")
    return "its ssh configuration has RekeyLimit";
  if (const auto type = config.value("sessiontype"); !type.empty() && type != "default")
    return "its ssh configuration has SessionType";
  target.user = config.value("user");
  target.host = config.value("hostname");
  const auto port = config.value("port");
  if (!port.empty()) std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (target.user.empty() || target.host.empty() || target.port == 0)
    return "ssh -G names no user, host name and port";
  const auto family = config.value("addressfamily");
  target.family = family == "inet"    ? Libssh2Target::Family::v4
                  : family == "inet6" ? Libssh2Target::Family::v6
                                      : Libssh2Target::Family::any;
  target.connect_timeout = ssh_connect_timeout(config);
  target.attempts = static_cast<int>(number_of(config, "connectionattempts").value_or(1));
  target.kex = joined(common_words(config, "kexalgorithms", known_kex()));
  target.ciphers = joined(common_words(config, "ciphers", known_ciphers()));
  target.macs = joined(common_words(config, "macs", known_macs()));
  if (target.kex.empty()) return "libssh2 has none of its KexAlgorithms";
  if (target.ciphers.empty()) return "libssh2 has none of its Ciphers";
  if (target.macs.empty()) return "libssh2 has none of its MACs";
  return {};
}

std::string read_host_keys(const SshConfig& config, const SshSurroundings& here,
                           Libssh2Target& target) {
  const auto strict = config.value("stricthostkeychecking");
  if (strict == "no" || strict == "off" || strict == "false")
    return "its ssh configuration has StrictHostKeyChecking no";
  target.accept_new = strict == "accept-new";
  target.hash_names = config.is_on("hashknownhosts");
  target.known_as = known_host_name(target.host, target.port, config.value("hostkeyalias"));
  auto known = std::make_shared<KnownHosts>();
  for (const char* const keyword : {"userknownhostsfile", "globalknownhostsfile"}) {
    for (const std::string& word : config.words(keyword)) {
      const std::string path = expanded(word, here.home);
      if (path == "none") continue;
      if (target.record_in.empty() && keyword[0] == 'u') target.record_in = path;
      if (const auto text = here.read_file(path)) known->add(path, *text);
    }
  }
  if (known->has_authority(target.known_as)) return "its host key comes with a certificate";
  Words types = common_words(config, "hostkeyalgorithms", known_keys());
  if (types.empty()) return "libssh2 has none of its HostKeyAlgorithms";
  // First the types that are known of it, since of any other no key can be checked.
  const Words known_types = known->types(target.known_as);
  std::stable_partition(types.begin(), types.end(),
                        [&](const std::string& type) { return has(known_types, type); });
  if (!known_types.empty() && !has(known_types, types.front()))
    return "of its host keys only " + joined(known_types) + " is known";
  target.host_keys = joined(types);
  target.known_hosts = std::move(known);
  return {};
}

std::string read_identities(const SshConfig& config, const SshSurroundings& here,
                            Libssh2Target& target) {
  if (const auto publickey = config.value("pubkeyauthentication");
      publickey == "no" || publickey == "false")
    return "its ssh configuration has PubkeyAuthentication no";
  const Words methods = config.words("preferredauthentications", ',');
  if (!methods.empty() && methods.front() != "publickey")
    return "its ssh configuration prefers to log in by " + methods.front();
  if (config.is_on("gssapiauthentication") && here.has_ticket)
    return "there is a Kerberos ticket, and GSSAPIAuthentication is on";
  target.key_types = common_words(config, "pubkeyacceptedalgorithms", known_keys());
  const std::string agent(config.value("identityagent"));
  target.agent = agent.empty() || agent == "SSH_AUTH_SOCK" ? here.agent
                 : agent == "none"                         ? ""
                                                           : expanded(agent, here.home);
  if (target.agent.starts_with('$')) return "its ssh configuration has IdentityAgent $...";
  // Then the agent's keys count only when one of the files names them.
  if (config.is_on("identitiesonly")) target.agent.clear();
  std::string unusable;
  for (const std::string& word : config.values("identityfile")) {
    const std::string path = expanded(word, here.home);
    if (here.read_file(path + "-cert.pub")) return "there is a certificate beside " + path;
    const auto text = here.read_key(path);
    if (!text) continue;
    const auto key = read_key_file(*text);
    if (key && !key->encrypted && has(target.key_types, key->type))
      target.key_files.push_back(path);
    else if (unusable.empty())
      unusable =
          path + (key && key->encrypted ? " has a passphrase" : " is no key that libssh2 can use");
  }
  if (target.key_files.empty() && target.agent.empty())
    return unusable.empty() ? "there is no ed25519 or ecdsa key" : unusable;
  return {};
}

}  // namespace

std::optional<std::chrono::milliseconds> ssh_connect_timeout(const SshConfig& config) {
  const auto seconds = number_of(config, "connecttimeout");
  if (!seconds) return std::nullopt;
  return std::chrono::seconds(*seconds);
}

SshChoice choose_ssh(const SshConfig& config, const SshSurroundings& here) {
  SshChoice choice;
  choice.not_libssh2 = read_connection(config, choice.target);
  if (choice.not_libssh2.empty()) choice.not_libssh2 = read_host_keys(config, here, choice.target);
  if (choice.not_libssh2.empty()) choice.not_libssh2 = read_identities(config, here, choice.target);
  return choice;
}

SshConfig default_ssh_config(const std::string& host, const SshOptions& options,
                             const SshSurroundings& here) {
  std::string text = "user " + (options.user.empty() ? here.user : options.user) + "\nhostname " +
                     host + "\nport " + std::to_string(options.port.value_or(22)) + "\n";
  if (options.identity_file.empty())
    text += "identityfile ~/.ssh/id_ecdsa\nidentityfile ~/.ssh/id_ed25519\n";
  else
    text += "identityfile " + options.identity_file + "\n";
  text +=
      "userknownhostsfile ~/.ssh/known_hosts ~/.ssh/known_hosts2\n"
      "globalknownhostsfile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2\n";
  if (options.accept_new_host_keys) text += "stricthostkeychecking accept-new\n";
  return SshConfig(text);
}

}  // namespace hvdrun
