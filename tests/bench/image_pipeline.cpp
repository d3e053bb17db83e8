// Images per second of libjpeg-turbo alone and of InputPipeline, over the same images.
//
//   image_pipeline make DIR COUNT     shards of made-up JPEGs of 500x375 pixels in DIR; prints the
//                                     mean size of one in bytes
//   image_pipeline bare DIR DCT       libjpeg-turbo, whole images from memory into one buffer
//   image_pipeline pipeline DIR DCT THREADS all|colourless|crop MILLISECONDS
//                                     InputPipeline, whose user does nothing for so long with each
//                                     batch; crop: the middle one, nothing at random
//
// DCT is fast or accurate. The last two print images per second, images per second of CPU time. The
// pipeline also prints the percentage of its time that its user has waited (but for the first
// batch). The largest growth of its resident memory and what was promised follow, in MB.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "worker/labs/data/files/example.h"
#include "worker/labs/data/files/records.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/images/input_pipeline.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

namespace {

using namespace hvdrun;

constexpr std::size_t kShards = 2;
constexpr std::size_t kBatch = 32;
constexpr std::size_t kSide = 224;
constexpr std::size_t kPasses = 2;  // in one run, over all images; one more warms up
constexpr std::uint64_t kSeed = 1;
constexpr int kQuality = 93;  // JPEGs of 84 kB on the average; ImageNet's have about 110

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "image_pipeline: %s\n", what.c_str());
  std::exit(1);
}

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Stopwatch {
 public:
  double wall() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  double cpu() const { return cpu_seconds() - cpu_; }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double cpu_ = cpu_seconds();
};

// "VmRSS:", "VmHWM:"; in MB.
double memory(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(name, 0) == 0) return std::atof(line.c_str() + name.size()) * 1024 / 1e6;
  fail("no " + name + " in /proc/self/status");
}

int make(const std::string& directory, std::size_t count) {
  std::size_t bytes = 0;
  for (std::size_t shard = 0; shard < kShards; ++shard) {
    std::string records;
    for (std::size_t i = count * shard / kShards; i < count * (shard + 1) / kShards; ++i) {
      SplitMix random(kSeed, i);
      const bool upright = i % 4 == 3;
      const std::string encoded = encode_jpeg(
          synthetic_pattern(i % kPatterns, upright ? 500 : 375, upright ? 375 : 500, random),
          kQuality);
      bytes += encoded.size();
      Feature image;
      image.bytes.emplace_back(encoded);
      Feature label;
      label.integers.push_back(static_cast<std::int64_t>(i % kPatterns + 1));
      Example example;
      example.add("image/encoded", image);
      example.add("image/class/label", label);
      records += encode_record(encode_example(example));
    }
    std::string error;
    if (!write_whole_file(directory + "/" + shard_name("train", shard, kShards), records, error))
      fail(error);
  }
  std::printf("%zu\n", bytes / count);
  return 0;
}

std::shared_ptr<const ImageSource> open(const std::string& directory) {
  std::string error;
  std::shared_ptr<const ImageSource> source =
      shard_source(directory, "train", static_cast<std::int64_t>(kPatterns), error);
  if (!source) fail(error);
  return source;
}

int bare(const std::string& directory, bool fast) {
  const auto source = open(directory);
  std::vector<std::string> images;
  for (std::size_t i = 0; i < source->size(); ++i) {
    std::string error;
    auto image = source->read(i, error);
    if (!image) fail(error);
    images.push_back(std::move(image->bytes));
  }
  // One decompressor and one buffer for all; libjpeg's own way with errors is to end the program.
  jpeg_error_mgr errors{};
  jpeg_decompress_struct info{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  std::vector<std::uint8_t> pixels;
  std::vector<std::uint8_t*> lines;
  const auto decode_all = [&] {
    for (const std::string& image : images) {
      jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(image.data()), image.size());
      jpeg_read_header(&info, TRUE);
      info.out_color_space = JCS_RGB;
      info.dct_method = fast ? JDCT_IFAST : JDCT_ISLOW;
      info.do_fancy_upsampling = fast ? FALSE : TRUE;
      jpeg_start_decompress(&info);
      pixels.resize(std::size_t{info.output_height} * info.output_width * 3);
      lines.resize(info.output_height);
      for (std::size_t y = 0; y < lines.size(); ++y)
        lines[y] = pixels.data() + y * info.output_width * 3;
      while (info.output_scanline < info.output_height)
        jpeg_read_scanlines(&info, lines.data() + info.output_scanline,
                            info.output_height - info.output_scanline);
      jpeg_finish_decompress(&info);
    }
  };
  decode_all();
  const Stopwatch watch;
  for (std::size_t i = 0; i < kPasses; ++i) decode_all();
  const auto count = static_cast<double>(kPasses * images.size());
  std::printf("%.3f %.3f\n", count / watch.wall(), count / watch.cpu());
  jpeg_destroy_decompress(&info);
  return 0;
}

int pipeline(const std::string& directory, bool fast, std::size_t threads, const std::string& what,
             std::chrono::duration<double, std::milli> pause) {
  const auto source = open(directory);
  PipelineOptions options;
  options.side = kSide;
  options.threads = threads;
  options.dct = fast ? DctMethod::fast : DctMethod::accurate;
  options.changes_colours = what == "all";
  Pass pass;
  pass.augment = what != "crop";
  pass.seed = kSeed;
  pass.samples.resize(source->size());
  std::iota(pass.samples.begin(), pass.samples.end(), 0U);
  pass.batch_sizes.assign(source->size() / kBatch, kBatch);
  const double before = memory("VmRSS:");
  InputPipeline pipeline(source, options);
  double waited = 0;
  double used = 0;  // by its user, and waited
  const auto take_all = [&] {
    std::string error;
    for (bool first = true;; first = false) {
      const Stopwatch watch;
      const auto batch = pipeline.next(error);
      if (!batch) break;
      const double wait = watch.wall();
      if (pause.count() > 0) std::this_thread::sleep_for(pause);
      if (!first) waited += wait;
      if (!first) used += watch.wall();
    }
    if (!error.empty()) fail(error);
  };
  pipeline.begin(pass);
  take_all();
  waited = used = 0;
  const Stopwatch watch;
  for (pass.epoch = 1; pass.epoch <= kPasses; ++pass.epoch) {
    pipeline.begin(pass);
    take_all();
  }
  const auto count = static_cast<double>(kPasses * pass.samples.size());
  const double batch = static_cast<double>(kBatch * 3 * kSide * kSide * sizeof(float));
  // The batches ahead, the one that its user holds, and an image of each thread, encoded and
  // decoded.
  const double promised =
      static_cast<double>(options.batches_ahead + 1) * batch + static_cast<double>(threads) * 2e6;
  std::printf("%.3f %.3f %.3f %.3f %.3f\n", count / watch.wall(), count / watch.cpu(),
              100 * waited / used, memory("VmHWM:") - before, promised / 1e6);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 3 && arguments[0] == "make")
    return make(arguments[1], std::strtoul(argv[3], nullptr, 10) / kBatch * kBatch);
  if (arguments.size() == 3 && arguments[0] == "bare")
    return bare(arguments[1], arguments[2] == "fast");
  if (arguments.size() == 6 && arguments[0] == "pipeline")
    return pipeline(arguments[1], arguments[2] == "fast", std::strtoul(argv[4], nullptr, 10),
                    arguments[4], std::chrono::duration<double, std::milli>(std::atof(argv[6])));
  std::fprintf(stderr, "image_pipeline: see the head of image_pipeline.cpp\n");
  return 64;
}
