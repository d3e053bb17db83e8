#include "worker/hvd/api/address_book.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include <hvd/hvd.h>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

std::string key_of(std::uint32_t generation, std::size_t host) {
  return "data/" + std::to_string(generation) + "/" + std::to_string(host);
}

std::string piece_key(std::uint32_t generation, std::size_t piece) {
  return "data/" + std::to_string(generation) + "/all/" + std::to_string(piece);
}

[[noreturn]] void has_not_come(std::size_t host, std::size_t hosts) {
  throw hvd::Error(ErrorCode::timeout, "not all ranks of host " + std::to_string(host) + " of " +
                                           std::to_string(hosts) +
                                           " (counted from 0) arrived in time");
}

AddressBook collect(BookStore& store, std::uint32_t generation, std::size_t hosts,
                    const std::vector<std::string>& own) {
  AddressBook book{own};
  for (std::size_t host = 1; host < hosts; ++host) {
    const std::optional<std::string> said = store.get(key_of(generation, host), true);
    if (!said) has_not_come(host, hosts);
    AddressBook one = read_book(*said);
    if (one.size() != 1)
      throw hvd::Error(ErrorCode::internal,
                       "host " + std::to_string(host) + " did not say where its ranks are");
    book.push_back(std::move(one.front()));
  }
  const std::vector<std::string> pieces = write_book(book, limits::kMaxStoreValue);
  // A reader of the first knows that the others are there.
  for (std::size_t piece = pieces.size(); piece-- > 0;)
    store.put(piece_key(generation, piece), pieces[piece]);
  return book;
}

AddressBook fetch(BookStore& store, std::uint32_t generation, std::size_t hosts) {
  std::optional<std::string> text = store.get(piece_key(generation, 0), true);
  if (!text) {
    if (!store.get(key_of(generation, 0), false)) has_not_come(0, hosts);
    throw hvd::Error(ErrorCode::timeout,
                     "not all ranks of the " + std::to_string(hosts) + " hosts arrived in time");
  }
  std::size_t pieces = 0;
  std::from_chars(text->data(), text->data() + text->size(), pieces);
  text->erase(0, text->find('\n') + 1);
  for (std::size_t piece = 1; piece < pieces; ++piece)
    *text += store.get(piece_key(generation, piece), true).value_or("");
  return read_book(*text);
}

}  // namespace

AddressBook exchange_addresses(BookStore& store, std::uint32_t generation, std::size_t host,
                               std::size_t hosts, const std::vector<std::string>& own) {
  if (host == 0) {
    // Nobody needs it but to say who is missing.
    store.put(key_of(generation, 0), {});
    return collect(store, generation, hosts, own);
  }
  std::string said;
  for (const std::string& address : own) said += address + '\n';
  store.put(key_of(generation, host), said + '\n');
  AddressBook book = fetch(store, generation, hosts);
  if (book.size() != hosts)
    throw hvd::Error(ErrorCode::internal, "the first host named " + std::to_string(book.size()) +
                                              " hosts, not " + std::to_string(hosts));
  return book;
}

std::vector<std::string> write_book(const AddressBook& book, std::size_t limit) {
  constexpr std::size_t kCount = 24;  // for the line in front
  std::string text;
  for (const auto& host : book) {
    for (const std::string& address : host) text += address + '\n';
    text += '\n';
  }
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < text.size() || pieces.empty(); at += limit - kCount)
    pieces.push_back(text.substr(at, limit - kCount));
  pieces.front().insert(0, std::to_string(pieces.size()) + '\n');
  return pieces;
}

AddressBook read_book(std::string_view text) {
  AddressBook book;
  std::vector<std::string> host;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (end == 0) {
      book.push_back(std::exchange(host, {}));
    } else {
      host.emplace_back(text.substr(0, end));
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return book;
}

}  // namespace hvdrun
