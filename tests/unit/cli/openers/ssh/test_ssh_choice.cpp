#include <map>

#include "cli/openers/ssh/ssh_agent.h"
#include "cli/openers/ssh/ssh_choice.h"
#include "cli/openers/ssh/ssh_wire.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::string key_blob(const std::string& type) {
  std::string key;
  put_ssh_string(key, type);
  put_ssh_string(key, std::string(32, 'k'));
  return key;
}

std::string key_file(const std::string& type, const std::string& cipher = "none") {
  std::string bytes("openssh-key-v1\0", 15);
  for (const char* const word : {cipher.c_str(), "none", ""}) put_ssh_string(bytes, word);
  put_ssh_number(bytes, 1);
  put_ssh_string(bytes, key_blob(type));
  return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + to_base64(bytes) +
         "\n-----END OPENSSH PRIVATE KEY-----\n";
}

// A machine with these files.
struct Machine {
  std::map<std::string, std::string> files{{"/home/me/.ssh/id_ed25519", key_file("ssh-ed25519")}};
  std::string agent;
  bool has_ticket = false;

  SshChoice choose(const std::string& more) const {
    SshSurroundings here;
    here.user = "me";
    here.home = "/home/me";
    here.agent = agent;
    here.has_ticket = has_ticket;
    here.read_file = [this](const std::string& path) {
      const auto found = files.find(path);
      return found == files.end() ? std::nullopt : std::optional(found->second);
    };
    here.read_key = here.read_file;
    // The first of several lines with one keyword counts, as in ssh's own files.
    return choose_ssh(SshConfig(more + kUsual), here);
  }

  static constexpr const char* kUsual =
      "host gpu1\nuser me\nhostname gpu1.lab\nport 22\naddressfamily any\ncompression no\n"
      "gssapiauthentication yes\nproxyusefdpass no\npubkeyauthentication true\n"
      "stricthostkeychecking ask\nhashknownhosts yes\nverifyhostkeydns false\ntunnel false\n"
      "ciphers chacha20-poly1305@openssh.com,aes256-ctr,aes128-ctr\n"
      "kexalgorithms sntrup761x25519-sha512@openssh.com,curve25519-sha256\n"
      "macs umac-64-etm@openssh.com,hmac-sha2-512,hmac-sha2-256\n"
      "hostkeyalgorithms ssh-ed25519-cert-v01@openssh.com,ssh-ed25519,ecdsa-sha2-nistp256\n"
      "identityfile ~/.ssh/id_rsa\nidentityfile ~/.ssh/id_ed25519\n"
      "userknownhostsfile /home/me/.ssh/known_hosts /home/me/.ssh/known_hosts2\n"
      "globalknownhostsfile /etc/ssh/ssh_known_hosts\nrekeylimit 0 0\nsessiontype default\n"
      "sendenv LANG\nforwardagent no\nforwardx11 no\npermitlocalcommand no\n";
};

TEST_CASE("what ssh -G says is what libssh2 is told", "[ssh choice]") {
  const Machine machine;
  const SshChoice choice = machine.choose("");
  CHECK(choice.not_libssh2.empty());
  const Libssh2Target& target = choice.target;
  CHECK(target.user == "me");
  CHECK(target.host == "gpu1.lab");
  CHECK(target.port == 22);
  CHECK(target.known_as.name == "gpu1.lab");
  CHECK(target.ciphers == "aes256-ctr,aes128-ctr");
  CHECK(target.kex == "curve25519-sha256");
  CHECK(target.macs == "hmac-sha2-512,hmac-sha2-256");
  CHECK(target.host_keys == "ssh-ed25519,ecdsa-sha2-nistp256");
  CHECK(target.key_files == std::vector<std::string>{"/home/me/.ssh/id_ed25519"});
  CHECK(target.record_in == "/home/me/.ssh/known_hosts");
  CHECK(target.hash_names);
  CHECK_FALSE(target.accept_new);
  const Libssh2Target other = machine
                                  .choose(
                                      "port 77\nhostkeyalias farm\naddressfamily inet6\n"
                                      "stricthostkeychecking accept-new\n")
                                  .target;
  CHECK(other.port == 77);
  CHECK(other.known_as.name == "farm");
  CHECK(other.family == Libssh2Target::Family::v6);
  CHECK(other.accept_new);
}

TEST_CASE("what libssh2 cannot do sends a host to the client", "[ssh choice]") {
  const Machine machine;
  for (const char* const line : {"proxyjump gate",
                                 "proxycommand nc %h %p",
                                 "certificatefile ~/.ssh/c",
                                 "compression yes",
                                 "pkcs11provider /usr/lib/p11.so",
                                 "hostbasedauthentication yes",
                                 "knownhostscommand /bin/k",
                                 "revokedhostkeys /etc/krl",
                                 "verifyhostkeydns true",
                                 "bindaddress 10.0.0.1",
                                 "bindinterface eth1",
                                 "forwardagent yes",
                                 "forwardx11 yes",
                                 "remotecommand tmux",
                                 "setenv A=b",
                                 "rekeylimit 1000000 0",
                                 "sessiontype none",
                                 "stricthostkeychecking false",
                                 "pubkeyauthentication false",
                                 "preferredauthentications gssapi-with-mic,publickey",
                                 "ciphers aes256-gcm@openssh.com",
                                 "kexalgorithms sntrup761x25519-sha512@openssh.com",
                                 "macs hmac-sha2-256-etm@openssh.com",
                                 "hostkeyalgorithms rsa-sha2-512,rsa-sha2-256",
                                 "pubkeyacceptedalgorithms rsa-sha2-512",
                                 "identityagent $AGENT",
                                 "port 0"}) {
    CAPTURE(line);
    CHECK_FALSE(machine.choose(std::string(line) + "\n").not_libssh2.empty());
  }
  CHECK(machine.choose("proxyjump none\nproxycommand none\n").not_libssh2.empty());
  Machine kerberos;
  kerberos.has_ticket = true;
  CHECK_FALSE(kerberos.choose("").not_libssh2.empty());
  CHECK(kerberos.choose("gssapiauthentication no\n").not_libssh2.empty());
}

TEST_CASE("a key decides who can log in", "[ssh choice]") {
  Machine machine;
  machine.files["/home/me/.ssh/id_rsa"] = key_file("ssh-rsa");
  CHECK(machine.choose("").target.key_files.size() == 1);
  machine.files.erase("/home/me/.ssh/id_ed25519");
  CHECK(machine.choose("").not_libssh2.find("id_rsa is no key") != std::string::npos);
  machine.files.erase("/home/me/.ssh/id_rsa");
  CHECK_FALSE(machine.choose("").not_libssh2.empty());
  machine.files["/home/me/.ssh/id_ed25519"] = key_file("ssh-ed25519", "aes256-ctr");
  CHECK(machine.choose("").not_libssh2.find("passphrase") != std::string::npos);
  machine.files["/home/me/.ssh/id_ed25519"] = key_file("sk-ssh-ed25519@openssh.com");
  CHECK_FALSE(machine.choose("").not_libssh2.empty());
  machine.agent = "/run/agent";
  CHECK(machine.choose("").not_libssh2.empty());
  CHECK(machine.choose("").target.agent == "/run/agent");
  CHECK(machine.choose("identityagent ~/other\n").target.agent == "/home/me/other");
  CHECK_FALSE(machine.choose("identityagent none\n").not_libssh2.empty());
  CHECK_FALSE(machine.choose("identitiesonly yes\n").not_libssh2.empty());
  machine.files["/home/me/.ssh/id_ed25519"] = key_file("ssh-ed25519");
  machine.files["/home/me/.ssh/id_ed25519-cert.pub"] = "ssh-ed25519-cert-v01@openssh.com AAAA";
  CHECK(machine.choose("").not_libssh2.find("certificate") != std::string::npos);
}

TEST_CASE("types of host keys that are known come first", "[ssh choice]") {
  Machine machine;
  std::string& known = machine.files["/home/me/.ssh/known_hosts"];
  known = "gpu1.lab ecdsa-sha2-nistp256 " + to_base64(key_blob("ecdsa-sha2-nistp256")) + "\n";
  CHECK(machine.choose("").target.host_keys == "ecdsa-sha2-nistp256,ssh-ed25519");
  known = "gpu1.lab ssh-rsa " + to_base64(key_blob("ssh-rsa")) + "\n";
  CHECK(machine.choose("").not_libssh2 == "of its host keys only ssh-rsa is known");
  CHECK(machine.choose("hostname gpu2.lab\n").not_libssh2.empty());
  known = "@cert-authority *.lab ssh-ed25519 " + to_base64(key_blob("ssh-ed25519")) + "\n";
  CHECK_FALSE(machine.choose("").not_libssh2.empty());
}

TEST_CASE("without an ssh program the usual files hold", "[ssh choice]") {
  SshSurroundings here;
  here.user = "me";
  here.home = "/home/me";
  here.read_file = [](const std::string&) { return std::nullopt; };
  here.read_key = [](const std::string&) { return std::optional(key_file("ssh-ed25519")); };
  SshOptions options;
  options.user = "you";
  options.port = 77;
  options.accept_new_host_keys = true;
  const auto target = choose_ssh(default_ssh_config("gpu1", options, here), here).target;
  CHECK(target.user == "you");
  CHECK(target.host == "gpu1");
  CHECK(target.port == 77);
  CHECK(target.accept_new);
  CHECK(target.known_as.name == "[gpu1]:77");
  CHECK(target.record_in == "/home/me/.ssh/known_hosts");
  CHECK(target.key_files.back() == "/home/me/.ssh/id_ed25519");
  CHECK(default_ssh_config("gpu1", {}, here).value("user") == "me");
}

TEST_CASE("ConnectTimeout and ConnectionAttempts count in the ssh that is built in",
          "[ssh choice]") {
  const Machine machine;
  const Libssh2Target usual = machine.choose("connecttimeout none\nconnectionattempts 1\n").target;
  CHECK_FALSE(usual.connect_timeout);
  CHECK(usual.attempts == 1);
  const SshChoice choice = machine.choose("connecttimeout 7\nconnectionattempts 4\n");
  CHECK(choice.not_libssh2.empty());
  CHECK(choice.target.connect_timeout == std::chrono::seconds(7));
  CHECK(choice.target.attempts == 4);
  // As in ssh, 0 is none.
  CHECK_FALSE(machine.choose("connecttimeout 0\n").target.connect_timeout);
  for (const char* const strange : {"x", "-1", "99999999999999999999", ""}) {
    CAPTURE(strange);
    const std::string lines =
        std::string("connecttimeout ") + strange + "\nconnectionattempts " + strange + "\n";
    CHECK_FALSE(machine.choose(lines).target.connect_timeout);
    CHECK(machine.choose(lines).target.attempts == 1);
  }
}

TEST_CASE("words of --ssh with {host} are a template", "[ssh choice]") {
  const auto argv = [](std::vector<std::string> program) {
    SshOptions options;
    options.program = std::move(program);
    return ssh_command(options, "pod-1", std::chrono::milliseconds(1), "exec it");
  };
  CHECK(argv({"kubectl", "exec", "-i", "{host}", "--"}) ==
        std::vector<std::string>{"kubectl", "exec", "-i", "pod-1", "--", "sh", "-c", "exec it"});
  CHECK(argv({"reach", "--host={host}", "{command}"}) ==
        std::vector<std::string>{"reach", "--host=pod-1", "exec it"});
  SshOptions options;
  options.program = {"reach", "{host}"};
  CHECK(ssh_by_hand(options, "pod-1") == "reach pod-1 sh -c true");
  CHECK(ssh_options_fault(options).empty());
  options.port = 1;
  CHECK_FALSE(ssh_options_fault(options).empty());
  SshOptions forced;
  forced.carrier = HostCarrier::libssh2;
  CHECK(ssh_options_fault(forced).empty());
  forced.arguments = {"-4"};
  CHECK_FALSE(ssh_options_fault(forced).empty());
}

TEST_CASE("an agent's answers are read, and nothing else is", "[ssh agent]") {
  CHECK(agent_list_request() == "\x0b");
  CHECK(agent_sign_request("k", "data") ==
        std::string("\x0d\0\0\0\1k\0\0\0\4data\0\0\0\0", 1 + 5 + 8 + 4));
  std::string keys("\x0c\0\0\0\2", 5);
  for (const char* const word : {"key one", "comment", "key two", ""}) put_ssh_string(keys, word);
  CHECK(parse_agent_keys(keys) == std::vector<std::string>{"key one", "key two"});
  std::string kind_and_bytes;
  put_ssh_string(kind_and_bytes, "ssh-ed25519");
  put_ssh_string(kind_and_bytes, "signature");
  std::string answer("\x0e");
  put_ssh_string(answer, kind_and_bytes);
  CHECK(parse_agent_signature(answer) == "signature");
  for (std::size_t size = 0; size < keys.size(); ++size)
    CHECK_FALSE(parse_agent_keys(keys.substr(0, size)).has_value());
  for (std::size_t size = 0; size < answer.size(); ++size)
    CHECK_FALSE(parse_agent_signature(answer.substr(0, size)).has_value());
  CHECK_FALSE(parse_agent_keys("\x05").has_value());
  CHECK_FALSE(parse_agent_keys(std::string("\x0c\xff\xff\xff\xff", 5)).has_value());
  CHECK_FALSE(parse_agent_signature("\x05").has_value());
}

}  // namespace
}  // namespace hvdrun
