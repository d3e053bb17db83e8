#include <string>

#include "cli/openers/ssh/key_file.h"
#include "cli/openers/ssh/known_hosts.h"
#include "cli/openers/ssh/ssh_wire.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Verdict = KnownHosts::Verdict;

std::string some_key(const std::string& type, char fill) {
  std::string key;
  put_ssh_string(key, type);
  put_ssh_string(key, std::string(32, fill));
  return key;
}

const std::string kKey = some_key("ssh-ed25519", 'a');
const std::string kOther = some_key("ssh-ed25519", 'b');
const std::string kEcdsa = some_key("ecdsa-sha2-nistp256", 'c');

std::string line(const std::string& hosts, const std::string& key) {
  return hosts + " " + key_type(key) + " " + to_base64(key) + " a comment\n";
}

Verdict check(const std::string& file, const std::string& host, const std::string& key,
              std::uint16_t port = 22, const std::string& alias = "") {
  KnownHosts known;
  known.add("file", file);
  std::string where;
  return known.check(known_host_name(host, port, alias), key, where);
}

TEST_CASE("a host is known by its name, a pattern or a hash", "[known hosts]") {
  CHECK(check("", "node1", kKey) == Verdict::unknown);
  CHECK(check(line("node1", kKey), "node1", kKey) == Verdict::known);
  CHECK(check(line("node1", kKey), "NODE1", kKey) == Verdict::known);
  CHECK(check(line("other,10.0.0.1", kKey), "10.0.0.1", kKey) == Verdict::known);
  CHECK(check(line("node1", kKey), "node11", kKey) == Verdict::unknown);
  CHECK(check(line("*.lab,gpu?", kKey), "a.b.lab", kKey) == Verdict::known);
  CHECK(check(line("*.lab,gpu?", kKey), "gpu7", kKey) == Verdict::known);
  CHECK(check(line("*.lab,gpu?", kKey), "gpu17", kKey) == Verdict::unknown);
  CHECK(check(line("*,!node1", kKey), "node1", kKey) == Verdict::unknown);
  // As ssh-keygen -H wrote it.
  const std::string hashed = "|1|pB65YjyzVQFnyi0xYqF06Nc53gM=|";
  const std::string salt = from_base64("pB65YjyzVQFnyi0xYqF06Nc53gM=");
  const std::string made = known_hosts_line(known_host_name("node1", 22, ""), kKey, salt);
  CHECK(made.starts_with(hashed));
  CHECK(made.find("node1") == std::string::npos);
  CHECK(check(made, "node1", kKey) == Verdict::known);
  CHECK(check(made, "node2", kKey) == Verdict::unknown);
}

TEST_CASE("a port and an alias are part of the name", "[known hosts]") {
  CHECK(check(line("[node1]:2222", kKey), "node1", kKey, 2222) == Verdict::known);
  CHECK(check(line("[node1]:2222", kKey), "node1", kKey) == Verdict::unknown);
  // As ssh does: the same key at another port of the same host.
  CHECK(check(line("node1", kKey), "node1", kKey, 2222) == Verdict::known);
  CHECK(check(line("node1", kOther), "node1", kKey, 2222) == Verdict::unknown);
  CHECK(check(line("farm", kKey), "node1", kKey, 2222, "farm") == Verdict::known);
  CHECK(check(line("node1", kKey), "node1", kKey, 22, "farm") == Verdict::unknown);
}

TEST_CASE("another key than the known one is not unknown but changed", "[known hosts]") {
  CHECK(check(line("node1", kOther), "node1", kKey) == Verdict::changed);
  CHECK(check(line("node1", kOther) + line("node1", kKey), "node1", kKey) == Verdict::known);
  CHECK(check(line("node1", kEcdsa), "node1", kKey) == Verdict::changed);
  KnownHosts known;
  known.add("some/file", "# a comment\n\n" + line("node1", kOther));
  std::string where;
  CHECK(known.check(known_host_name("node1", 22, ""), kKey, where) == Verdict::changed);
  CHECK(where == "some/file:3");
}

TEST_CASE("revoked keys and authorities are no known keys", "[known hosts]") {
  CHECK(check(line("node1", kKey) + line("@revoked *", kKey), "node1", kKey) == Verdict::revoked);
  CHECK(check(line("@revoked *", kOther) + line("node1", kKey), "node1", kKey) == Verdict::known);
  CHECK(check(line("@revoked node2", kKey), "node1", kKey) == Verdict::unknown);
  CHECK(check(line("@cert-authority *", kKey), "node1", kKey) == Verdict::unknown);
  KnownHosts known;
  known.add("file", line("@cert-authority *.lab", kKey) + line("node1", kEcdsa) +
                        line("node1", kKey) + line("@revoked node1", kOther));
  CHECK(known.has_authority(known_host_name("a.lab", 22, "")));
  CHECK_FALSE(known.has_authority(known_host_name("node1", 22, "")));
  CHECK(known.types(known_host_name("node1", 22, "")) ==
        std::vector<std::string>{"ecdsa-sha2-nistp256", "ssh-ed25519"});
  CHECK(known.types(known_host_name("node1", 77, "")).size() == 2);
}

TEST_CASE("lines that are none are passed over", "[known hosts]") {
  const std::string good = line("node1", kKey);
  for (const std::string& bad :
       {std::string("node1"), std::string("node1 ssh-ed25519"),
        std::string("node1 ssh-rsa ") + to_base64(kKey), std::string("node1 ssh-ed25519 !!!!"),
        std::string("@unknown node1 ssh-ed25519 AAAA"),
        std::string("|1|| ssh-ed25519 ") + to_base64(kKey), std::string(100'000, 'x')}) {
    CAPTURE(bad.substr(0, 60));
    CHECK(check(bad + "\n", "node1", kKey) == Verdict::unknown);
    CHECK(check(bad + "\n" + good, "node1", kKey) == Verdict::known);
  }
  // No prefix of a line is taken for it; one that is a key is another key.
  for (std::size_t size = 0; size < good.find(" a comment"); ++size)
    CHECK(check(good.substr(0, size), "node1", kKey) != Verdict::known);
}

TEST_CASE("the line to add is the one that ssh would write", "[known hosts]") {
  CHECK(known_hosts_line(known_host_name("Node1", 22, ""), kKey) ==
        "node1 ssh-ed25519 " + to_base64(kKey));
  CHECK(known_hosts_line(known_host_name("node1", 2222, ""), kKey) ==
        "[node1]:2222 ssh-ed25519 " + to_base64(kKey));
  // printf abc | sha256sum | xxd -r -p | base64
  CHECK(key_fingerprint("abc") == "SHA256:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0");
}

TEST_CASE("a private key file tells its type and whether it has a passphrase", "[known hosts]") {
  const auto file = [](const std::string& cipher, const std::string& public_key) {
    std::string bytes("openssh-key-v1\0", 15);
    for (const std::string& word : {cipher, std::string("kdf"), std::string()})
      put_ssh_string(bytes, word);
    put_ssh_number(bytes, 1);
    put_ssh_string(bytes, public_key);
    std::string text = to_base64(bytes);
    text.insert(40, "\n");
    return "-----BEGIN OPENSSH PRIVATE KEY-----\n" + text + "\n-----END OPENSSH PRIVATE KEY-----\n";
  };
  CHECK(read_key_file(file("none", kKey))->type == "ssh-ed25519");
  CHECK_FALSE(read_key_file(file("none", kKey))->encrypted);
  CHECK(read_key_file(file("aes256-ctr", kEcdsa))->encrypted);
  CHECK_FALSE(read_key_file(file("none", "")).has_value());
  CHECK_FALSE(read_key_file("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n").has_value());
  const std::string whole = file("none", kKey);
  for (std::size_t size = 0; size + 2 < whole.size(); ++size)
    CHECK_FALSE(read_key_file(whole.substr(0, size)).has_value());
}

}  // namespace
}  // namespace hvdrun
