#include "common/process/elf_file.h"

#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <type_traits>
#include <unistd.h>

#include <elf.h>
#include <link.h>

#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

using ElfHeader = ElfW(Ehdr);
using ElfSegment = ElfW(Phdr);
using ElfEntry = ElfW(Dyn);

constexpr std::size_t kMaxElfSegments = 256;
constexpr std::size_t kMaxDynamic = 4096;       // entries
constexpr std::size_t kMaxStrings = 16U << 20;  // bytes
constexpr std::size_t kMaxString = 64U << 10;

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
#else
constexpr int kMachine = EM_NONE;
#endif

class Reader {
 public:
  explicit Reader(const std::string& path)
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

  bool read(std::uint64_t at, void* to, std::size_t size) const {
    return fd_ && at <= INT64_MAX &&
           ::pread(fd_.get(), to, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
  }
  template <class T>
  bool read_all(std::uint64_t at, std::vector<T>& items) const {
    static_assert(std::is_trivially_copyable_v<T>);
    return read(at, items.data(), items.size() * sizeof(T));
  }
  // Up to its zero byte.
  std::optional<std::string> read_string(std::uint64_t at) const {
    std::string text;
    char buffer[256];
    while (fd_ && at <= INT64_MAX && text.size() < kMaxString) {
      const ssize_t size = ::pread(fd_.get(), buffer, sizeof buffer, static_cast<off_t>(at));
      if (size <= 0) break;
      const auto length = ::strnlen(buffer, static_cast<std::size_t>(size));
      text.append(buffer, length);
      if (length < static_cast<std::size_t>(size)) return text;
      at += static_cast<std::uint64_t>(size);
    }
    return std::nullopt;
  }

 private:
  UniqueFd fd_;
};

// Where an address of the loaded file stands in the file.
std::optional<std::uint64_t> file_offset(const std::vector<ElfSegment>& segments,
                                         std::uint64_t address) {
  for (const ElfSegment& segment : segments)
    if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
        address - segment.p_vaddr < segment.p_filesz)
      return segment.p_offset + (address - segment.p_vaddr);
  return std::nullopt;
}

bool is_ours(const ElfHeader& header) {
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
         header.e_ident[EI_DATA] == ELFDATA2LSB && header.e_machine == kMachine &&
         (header.e_type == ET_EXEC || header.e_type == ET_DYN) &&
         header.e_phentsize == sizeof(ElfSegment) && header.e_phnum <= kMaxElfSegments;
}

bool read_dynamic(const Reader& reader, const std::vector<ElfSegment>& segments,
                  const ElfSegment& dynamic, ElfFile& file) {
  if (dynamic.p_filesz > kMaxDynamic * sizeof(ElfEntry)) return false;
  std::vector<ElfEntry> entries(dynamic.p_filesz / sizeof(ElfEntry));
  if (!reader.read_all(dynamic.p_offset, entries)) return false;
  std::optional<std::uint64_t> strings;
  std::uint64_t size = 0;
  for (const ElfEntry& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag == DT_STRTAB) strings = file_offset(segments, entry.d_un.d_ptr);
    if (entry.d_tag == DT_STRSZ) size = entry.d_un.d_val;
  }
  if (!strings || size > kMaxStrings) return false;
  for (const ElfEntry& entry : entries) {
    if (entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED && entry.d_tag != DT_SONAME && entry.d_tag != DT_RPATH &&
        entry.d_tag != DT_RUNPATH)
      continue;
    if (entry.d_un.d_val >= size) return false;
    auto text = reader.read_string(*strings + entry.d_un.d_val);
    if (!text) return false;
    switch (entry.d_tag) {
      case DT_NEEDED:
        file.needed.push_back(std::move(*text));
        break;
      case DT_SONAME:
        file.soname = std::move(*text);
        break;
      case DT_RPATH:
        file.rpath = std::move(*text);
        break;
      default:
        file.runpath = std::move(*text);
    }
  }
  return true;
}

}  // namespace

std::optional<ElfFile> read_elf_file(const std::string& path) {
  const Reader reader(path);
  ElfHeader header{};
  if (!reader.read(0, &header, sizeof header) || !is_ours(header)) return std::nullopt;
  std::vector<ElfSegment> segments(header.e_phnum);
  if (!reader.read_all(header.e_phoff, segments)) return std::nullopt;
  ElfFile file;
  for (const ElfSegment& segment : segments) {
    if (segment.p_type == PT_INTERP) {
      auto text = reader.read_string(segment.p_offset);
      if (!text) return std::nullopt;
      file.interpreter = std::move(*text);
    }
    if (segment.p_type == PT_DYNAMIC && !read_dynamic(reader, segments, segment, file))
      return std::nullopt;
  }
  return file;
}

}  // namespace hvdrun
