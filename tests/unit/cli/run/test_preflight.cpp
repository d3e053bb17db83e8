#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <elf.h>
#include <link.h>

#include "cli/run/preflight.h"
#include "common/process/elf_file.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    REQUIRE(::mkdtemp(path_.data()) != nullptr);
    path_ = fs::canonical(path_).string();
  }
  ~Folder() { fs::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& bytes,
                    bool executable = true) const {
    const std::string file = path_ + "/" + name;
    fs::create_directories(fs::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    ::chmod(file.c_str(), executable ? 0755 : 0644);
    return file;
  }

 private:
  std::string path_ = "/tmp/hvdrun-preflight-XXXXXX";
};

template <class T>
std::string bytes_of(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// The smallest file whose headers say what it needs. Tags: DT_RPATH, DT_RUNPATH or DT_NULL.
std::string elf_bytes(const std::vector<std::string>& needed, ElfW(Sxword) path_tag = DT_NULL,
                      const std::string& folders = "",
                      const std::string& interpreter = "/lib64/ld-linux-x86-64.so.2") {
  std::string strings(1, '\0');
  std::string dynamic;
  const auto add = [&](ElfW(Sxword) tag, const std::string& text) {
    ElfW(Dyn) entry{};
    entry.d_tag = tag;
    entry.d_un.d_val = strings.size();
    strings += text + '\0';
    dynamic += bytes_of(entry);
  };
  for (const std::string& name : needed) add(DT_NEEDED, name);
  if (path_tag != DT_NULL) add(path_tag, folders);
  const std::size_t strings_at =
      sizeof(ElfW(Ehdr)) + 3 * sizeof(ElfW(Phdr)) + interpreter.size() + 1;
  constexpr ElfW(Addr) kBase = 0x10000;
  ElfW(Dyn) entry{};
  entry.d_tag = DT_STRTAB;
  entry.d_un.d_ptr = kBase + strings_at;
  dynamic += bytes_of(entry);
  entry.d_tag = DT_STRSZ;
  entry.d_un.d_val = strings.size();
  dynamic += bytes_of(entry) + bytes_of(ElfW(Dyn){});

  ElfW(Ehdr) header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_DYN;
#if defined(__aarch64__)
  header.e_machine = EM_AARCH64;
#else
  header.e_machine = EM_X86_64;
#endif
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(ElfW(Phdr));
  header.e_phnum = 3;
  ElfW(Phdr) load{};
  load.p_type = PT_LOAD;
  load.p_vaddr = kBase;
  load.p_filesz = strings_at + strings.size() + dynamic.size();
  ElfW(Phdr) loader{};
  loader.p_type = PT_INTERP;
  loader.p_offset = sizeof(ElfW(Ehdr)) + 3 * sizeof(ElfW(Phdr));
  loader.p_filesz = interpreter.size() + 1;
  ElfW(Phdr) table{};
  table.p_type = PT_DYNAMIC;
  table.p_offset = strings_at + strings.size();
  table.p_filesz = dynamic.size();
  return bytes_of(header) + bytes_of(load) + bytes_of(loader) + bytes_of(table) + interpreter +
         '\0' + strings + dynamic;
}

JobSpec job(const std::string& program, const std::string& cwd = "/", Environment env = {}) {
  JobSpec spec;
  spec.ranks = {{{"localhost", 2}}, 2};
  spec.argv = {program};
  spec.cwd = cwd;
  spec.env = std::move(env);
  return spec;
}

std::string problem_of(const JobSpec& spec, int exit_code) {
  const auto problem = preflight(spec);
  REQUIRE(problem);
  CHECK(problem->exit_code == exit_code);
  CHECK(problem->text.find('\n') == std::string::npos);
  return problem->text;
}

TEST_CASE("a program that is not there or cannot be run is refused", "[preflight]") {
  const Folder folder;
  folder.write("text", "no program", false);
  folder.write("tool", "#!/bin/sh\n");
  CHECK_THAT(problem_of(job("/no/such"), 127), Catch::Contains("'/no/such': No such file"));
  CHECK_THAT(problem_of(job("./tool2", folder.path()), 127), Catch::Contains("'./tool2'"));
  CHECK_THAT(problem_of(job("tool", folder.path()), 127), Catch::Contains("write ./tool"));
  CHECK_THAT(problem_of(job("echo hi"), 127), Catch::Contains("without quotes"));
  CHECK_THAT(problem_of(job("./text", folder.path()), 126), Catch::Contains("Permission denied"));
  CHECK_THAT(problem_of(job(folder.path()), 126), Catch::Contains("is a folder"));
  CHECK_THAT(problem_of(job("true", "/no/folder"), 64), Catch::Contains("'/no/folder'"));
}

TEST_CASE("what is fine, or in doubt, is let through", "[preflight]") {
  const Folder folder;
  folder.write("script", "no #! at all\n");
  folder.write("env", "#!/usr/bin/env -S sh -e\n");
  folder.write("env-option", "#! /usr/bin/env -i no-such-program\n");
  folder.write("relative", "#!bin/link-me\n");
  folder.write("no-name", "#!\n");
  folder.write("empty", "");
  folder.write("odd", elf_bytes({"libno-such.so"}).substr(0, 100));
  folder.write("other-libc", elf_bytes({"libno-such.so"}, DT_NULL, "", "/bin/sh"));
  folder.write("lib", elf_bytes({"libno-such.so"}, DT_RUNPATH, "$LIB/x"));
  folder.write("bin/link-me", elf_bytes({"libmine.so"}, DT_RUNPATH, "$ORIGIN/../lib64"));
  folder.write("lib64/libmine.so", elf_bytes({}));
  fs::create_symlink(folder.path() + "/bin/link-me", folder.path() + "/link");
  for (const char* program :
       {"./script", "./env", "./env-option", "./relative", "./no-name", "./empty", "./odd",
        "./other-libc", "./lib", "./link", "true", "sh"}) {
    CAPTURE(program);
    const auto problem = preflight(job(program, folder.path()));
    INFO((problem ? problem->text : ""));
    CHECK_FALSE(problem);
  }
  // Somebody may preload it.
  folder.write("preload", elf_bytes({"libno-such.so"}));
  CHECK_FALSE(preflight(job("./preload", folder.path(), {"LD_PRELOAD=/x.so"})));
}

TEST_CASE("a script whose first line is wrong is told what to mend", "[preflight]") {
  const Folder folder;
  const Environment env{"PATH=" + folder.path() + ":/usr/bin:/bin"};
  const auto problem = [&](const std::string& first_line) {
    folder.write("script", first_line + "\necho hi\n");
    return problem_of(job("./script", folder.path(), env), 126);
  };
  CHECK(problem("#! /no/such/python3 -u") ==
        "'./script': its interpreter '/no/such/python3' (first line) is not found; install it, or "
        "name another one there");
  const auto carriage_return = [](const std::string& taken_for) {
    return "'./script': its first line ends with a carriage return, as lines of Windows do, which "
           "is taken for part of the interpreter's " +
           taken_for + "; write sed -i 's/\\r$//' ./script";
  };
  for (const char* line : {"#!/bin/sh\r", "#!/usr/bin/env sh\r"}) {
    CAPTURE(line);
    CHECK(problem(line) == carriage_return("name"));
  }
  CHECK(problem("#!/bin/sh -e\r") == carriage_return("argument"));
  CHECK(problem("#!/usr/bin/env no-such-python") ==
        "'./script': its interpreter 'no-such-python' (first line, by env) is not in PATH; install "
        "it, or name another one there");
  CHECK_THAT(problem("#!/usr/bin/env sh -e"), Catch::EndsWith("write #!/usr/bin/env -S sh -e"));
  CHECK_THAT(problem("#!/tmp"), Catch::Contains("'/tmp' (first line) is a folder"));
  // Found by env all the same.
  folder.write("no-such-python", "#!/bin/sh\n");
  folder.write("perl", "#!/bin/sh\n");
  // env -S ends a word at a carriage return, and perl its options.
  for (const std::string line :
       {"#!/usr/bin/env no-such-python", "#!/usr/bin/env -S sh\r", "#!/usr/bin/env -S sh -e\r"}) {
    CAPTURE(line);
    folder.write("script", line + "\n");
    CHECK_FALSE(preflight(job("./script", folder.path(), env)));
  }
  folder.write("script", "#!" + folder.path() + "/perl -w\r\n");
  CHECK_FALSE(preflight(job("./script", folder.path(), env)));
}

TEST_CASE("a link that leads nowhere is told from a name that is wrong", "[preflight]") {
  const Folder folder;
  const auto link = [&](const std::string& target, const std::string& name) {
    fs::create_symlink(target, folder.path() + "/" + name);
  };
  link("venv/bin/python3", "train");
  link("round", "round");
  CHECK(problem_of(job("./train", folder.path()), 127) ==
        "'./train' is a link to 'venv/bin/python3', which is not there; name the program itself, "
        "or mend the link (ln -sfn PROGRAM ./train)");
  CHECK_THAT(problem_of(job("./round", folder.path()), 127),
             Catch::Contains("is a link to 'round', which leads back to it"));
  CHECK_THAT(problem_of(job("train", "/", {"PATH=/bin:" + folder.path()}), 127),
             Catch::StartsWith("'" + folder.path() + "/train' is a link to 'venv/bin/python3'"));
  // One that follows in PATH is found all the same.
  folder.write("bin/train", "#!/bin/sh\n");
  CHECK_FALSE(
      preflight(job("train", "/", {"PATH=" + folder.path() + ":" + folder.path() + "/bin"})));
}

TEST_CASE("what the system says when a start fails is explained", "[preflight]") {
  const Folder folder;
  const Environment env;
  const ProgramUse use{env, folder.path()};
  const auto fault = [&](const std::string& program, int error) {
    return start_fault(program, program, {error, std::system_category()}, use);
  };
  std::string other = elf_bytes({"libc.so.6"});
  other[offsetof(ElfW(Ehdr), e_machine)] = static_cast<char>(EM_RISCV);
  other[offsetof(ElfW(Ehdr), e_machine) + 1] = '\0';
  folder.write("other", other);
  CHECK_THAT(fault("./other", ENOEXEC),
             Catch::StartsWith("'./other' is a program for riscv, and this machine is ") &&
                 Catch::EndsWith("; build it for that"));
  folder.write("noise", std::string("\1\0\2", 3));
  CHECK_THAT(fault("./noise", ENOEXEC), Catch::EndsWith("it is no program and no script"));
  folder.write("script", "#!/no/such/sh\n");
  CHECK_THAT(fault("./script", ENOENT), Catch::Contains("its interpreter '/no/such/sh'"));
  CHECK_THAT(fault("./script", EMFILE), Catch::Contains("Too many open files; the limit is "));
  CHECK(fault("./script", EIO) == "'./script': Input/output error");
  fs::remove_all(folder.path());
  CHECK_THAT(fault("./script", ENOENT), Catch::Contains("the working folder '"));
}

TEST_CASE("a library that is missing is named", "[preflight]") {
  const Folder folder;
  folder.write("direct", elf_bytes({"libc.so.6", "libno-such.so.1"}));
  CHECK_THAT(problem_of(job("./direct", folder.path()), 126),
             Catch::Contains("'./direct': the library libno-such.so.1 is not found;"));
  folder.write("deep", elf_bytes({"libmiddle.so"}, DT_RPATH, "$ORIGIN/lib"));
  const std::string middle = folder.write("lib/libmiddle.so", elf_bytes({"libno-such.so.2"}));
  CHECK_THAT(problem_of(job("./deep", folder.path()), 126),
             Catch::Contains("libno-such.so.2 is not found, which " + middle + " needs"));
  // An RPATH serves the libraries' libraries too, a RUNPATH only the program's own.
  folder.write("lib/libno-such.so.2", elf_bytes({}));
  CHECK_FALSE(preflight(job("./deep", folder.path())));
  folder.write("run", elf_bytes({"libmiddle.so"}, DT_RUNPATH, "$ORIGIN/lib"));
  CHECK_THAT(problem_of(job("./run", folder.path()), 126), Catch::Contains("libno-such.so.2"));
  CHECK_FALSE(
      preflight(job("./run", folder.path(), {"LD_LIBRARY_PATH=" + folder.path() + "/lib"})));
}

TEST_CASE("a loader that is missing is named", "[preflight]") {
  const Folder folder;
  folder.write("musl", elf_bytes({"libc.so"}, DT_NULL, "", "/no/such/ld-musl.so.1"));
  CHECK_THAT(problem_of(job("./musl", folder.path()), 126),
             Catch::Contains("'./musl': its loader /no/such/ld-musl.so.1 is not found"));
}

TEST_CASE("a program that waits for MPI is refused, unless that is wanted", "[preflight]") {
  const Folder folder;
  for (const char* library :
       {"libmpi.so.40", "libmpi.so.12", "libmpich.so.12", "libmpi_cxx.so.40"}) {
    CAPTURE(library);
    folder.write("program", elf_bytes({"libc.so.6", library}));
    folder.write("lib/" + std::string(library), elf_bytes({}));
    JobSpec spec = job("./program", folder.path(), {"LD_LIBRARY_PATH=" + folder.path() + "/lib"});
    CHECK_THAT(problem_of(spec, 64), Catch::Contains("2 copies of rank 0") &&
                                         Catch::Contains(library) &&
                                         Catch::Contains("--allow-mpi"));
    JobSpec allowed = spec;
    allowed.allow_mpi = true;
    CHECK_FALSE(preflight(allowed));
    spec.ranks = {{{"localhost", 1}}, 1};
    CHECK_FALSE(preflight(spec));
  }
  folder.write("both", elf_bytes({"libmpi.so.40", "libhvd.so.0"}));
  folder.write("lib/libhvd.so.0", elf_bytes({}));
  CHECK_FALSE(
      preflight(job("./both", folder.path(), {"LD_LIBRARY_PATH=" + folder.path() + "/lib"})));
}

TEST_CASE("a damaged program file is never read beyond its end", "[preflight]") {
  const Folder folder;
  const std::string good = elf_bytes({"libc.so.6", "libm.so.6"}, DT_RUNPATH, "/opt/lib");
  REQUIRE(read_elf_file(folder.write("good", good)));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char byte : {'\0', '\x7f', '\xff'}) {
      std::string bad = good;
      bad[i] = byte;
      const auto file = read_elf_file(folder.write("bad", bad));
      if (file) CHECK(file->needed.size() <= 8);
    }
    read_elf_file(folder.write("short", good.substr(0, i)));
  }
}

}  // namespace
}  // namespace hvdrun
