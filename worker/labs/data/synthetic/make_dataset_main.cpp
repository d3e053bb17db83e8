// hvd-make-dataset: writes a synthetic data set. scripts/make-dataset documents it.
#include <cstdio>
#include <filesystem>
#include <string>

#include <boost/program_options.hpp>

#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/svhn_files.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"
#include "worker/labs/data/synthetic/synthetic_numbers.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"
#include "worker/labs/data/synthetic/synthetic_sentences.h"

namespace {

constexpr int kUsage = 64;
constexpr int kCannotCreate = 73;
// 60 times MNIST's test set; a typing error must not fill the disk.
constexpr std::size_t kMaxImages = 600'000;

int fail(int code, const std::string& message) {
  std::fprintf(stderr, "make-dataset: %s\n", message.c_str());
  return code;
}

struct Kind {
  const char* name;
  const char* what;
  bool may_be_gzip;
  bool one_file;       // write() is called once, for both numbers together
  std::int64_t train;  // images, unless --train and --test say otherwise
  std::int64_t test;
  bool (*write)(const std::string& directory, hvdrun::Split split, std::size_t count,
                std::uint64_t seed, bool compressed, std::string& error);
};

constexpr Kind kKinds[] = {
    {"mnist", "synthetic digits", true, false, 12000, 2000,
     [](const std::string& directory, hvdrun::Split split, std::size_t count, std::uint64_t seed,
        bool compressed, std::string& error) {
       return hvdrun::write_mnist(directory, split, hvdrun::synthetic_digits(split, count, seed),
                                  compressed, error);
     }},
    {"fashion", "synthetic clothes", true, false, 12000, 2000,
     [](const std::string& directory, hvdrun::Split split, std::size_t count, std::uint64_t seed,
        bool compressed, std::string& error) {
       return hvdrun::write_mnist(directory, split, hvdrun::synthetic_clothes(split, count, seed),
                                  compressed, error);
     }},
    {"imagenet", "synthetic patterns in shards", false, false, 2000, 400,
     [](const std::string& directory, hvdrun::Split split, std::size_t count, std::uint64_t seed,
        bool /*compressed*/, std::string& error) {
       return hvdrun::write_synthetic_imagenet(directory, split, count, seed, error);
     }},
    {"text", "synthetic sentences in sentences.csv, which train divides itself", false, true, 10000,
     2000,
     [](const std::string& directory, hvdrun::Split /*split*/, std::size_t count,
        std::uint64_t seed, bool /*compressed*/, std::string& error) {
       return hvdrun::write_whole_file(directory + "/sentences.csv",
                                       hvdrun::synthetic_sentences(count, seed), error);
     }},
    {"artists", "synthetic patterns in folders", false, false, 1000, 200,
     [](const std::string& directory, hvdrun::Split split, std::size_t count, std::uint64_t seed,
        bool /*compressed*/, std::string& error) {
       return hvdrun::write_synthetic_artists(directory, split, count, seed, error);
     }},
    {"svhn", "synthetic house numbers", false, false, 12000, 2000,
     [](const std::string& directory, hvdrun::Split split, std::size_t count, std::uint64_t seed,
        bool /*compressed*/, std::string& error) {
       return hvdrun::write_svhn(directory, split, hvdrun::synthetic_numbers(split, count, seed),
                                 error);
     }},
};

int run(int argc, char** argv) {
  namespace po = boost::program_options;
  std::string kind;
  std::string directory;
  std::int64_t train = 0;
  std::int64_t test = 0;
  std::uint64_t seed = 1;
  po::options_description options;
  options.add_options()("kind", po::value(&kind))("directory", po::value(&directory))(
      "train", po::value(&train))("test", po::value(&test))("seed", po::value(&seed))("gzip", "");
  po::positional_options_description positions;
  positions.add("kind", 1).add("directory", 1);
  po::variables_map values;
  po::store(po::command_line_parser(argc, argv).options(options).positional(positions).run(),
            values);
  po::notify(values);

  if (kind.empty() || directory.empty()) {
    return fail(kUsage, "say what to make and where: make-dataset mnist DIR");
  }
  const Kind* made = nullptr;
  std::string names;
  for (const Kind& known : kKinds) {
    names.append(names.empty() ? "" : ", ").append(known.name);
    if (kind == known.name) made = &known;
  }
  if (made == nullptr) {
    return fail(kUsage, "unknown data set '" + kind + "'; there is: " + names);
  }
  const bool compressed = values.count("gzip") != 0;
  if (compressed && !made->may_be_gzip) {
    return fail(kUsage, "--gzip: the files of " + kind + " are read as they are; leave it out");
  }
  if (values.count("train") == 0) train = made->train;
  if (values.count("test") == 0) test = made->test;
  for (const std::int64_t count : {train, test}) {
    if (count < 1 || count > std::int64_t{kMaxImages}) {
      return fail(kUsage, "--train and --test take 1 to " + std::to_string(kMaxImages) +
                              " images, not " + std::to_string(count));
    }
  }
  std::error_code ec;
  std::filesystem::create_directories(directory, ec);
  if (ec) return fail(kCannotCreate, directory + ": " + ec.message());
  std::string error;
  for (const auto split : {hvdrun::Split::train, hvdrun::Split::test}) {
    const bool trains = split == hvdrun::Split::train;
    if (made->one_file && !trains) continue;
    const auto count = static_cast<std::size_t>(made->one_file ? train + test
                                                : trains       ? train
                                                               : test);
    if (!made->write(directory, split, count, seed, compressed, error)) {
      return fail(kCannotCreate, error);
    }
  }
  if (made->one_file)
    std::printf("%s: %lld samples (%s, seed %llu)\n", directory.c_str(),
                static_cast<long long>(train) + static_cast<long long>(test), made->what,
                static_cast<unsigned long long>(seed));
  else
    std::printf("%s: %lld training and %lld test images (%s, seed %llu)\n", directory.c_str(),
                static_cast<long long>(train), static_cast<long long>(test), made->what,
                static_cast<unsigned long long>(seed));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(kUsage, error.what());
  }
}
