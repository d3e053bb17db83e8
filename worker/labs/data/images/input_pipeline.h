// Images read, decoded and cropped by threads of their own, ahead of who trains on them.
//
// C++17: the labs include this.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "worker/labs/data/files/bad_samples.h"
#include "worker/labs/data/files/pass.h"
#include "worker/labs/data/images/crop.h"
#include "worker/labs/data/images/image_source.h"

namespace hvdrun {

// A batch: `labels.size()` images of 3 x side x side numbers, channel by channel.
struct CroppedImages {
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
};

struct PipelineOptions {
  std::size_t side = 224;
  std::size_t threads = 1;
  std::size_t batches_ahead = 3;  // finished or begun, the one that is given next included
  DctMethod dct = DctMethod::accurate;
  bool changes_colours = true;  // of augmented images
  PixelScaling scaling = {};
};

// One thread uses it. Batches come in the order of the pass, and what happens to an image follows
// from (seed, epoch, its number) alone: nothing depends on the number of threads.
//
// Memory: batches_ahead batches of pixels, those that its user keeps, and for each thread an
// encoded and a decoded image. A user who takes the next batch before he lets go of the last keeps
// one more.
class InputPipeline {
 public:
  InputPipeline(std::shared_ptr<const ImageSource> source, const PipelineOptions& options);
  InputPipeline(const InputPipeline&) = delete;
  InputPipeline& operator=(const InputPipeline&) = delete;
  // Ends the threads, each after the image that it is at.
  ~InputPipeline();

  // From now on next() gives the batches of this pass; what is left of the one before is dropped.
  void begin(Pass pass);
  // None after the last batch; and when an image could not be read and the pass is to stop there,
  // with `error` that names it. No batch is empty. The batch's memory is used again when its last
  // owner, in whatever thread, lets go of it.
  std::shared_ptr<CroppedImages> next(std::string& error);

  struct Times {
    std::chrono::duration<double> waited{0};  // in next(), for a batch
    std::size_t batches = 0;
  };
  // Since the pass began.
  Times times() const { return times_; }
  // Bad samples of the batches that next() has given since the pass began, in their order.
  const BadSamples& bad() const { return bad_; }

 private:
  // Keeps the batch that nobody uses just now for the next that is needed: new pages for each,
  // cleared by the kernel, are a fifth of the work. Between two passes it keeps none: a run's
  // pipelines, for training and for the test, work in turn. Batches that outlive the pipeline hold
  // it.
  class Memory : public std::enable_shared_from_this<Memory> {
   public:
    std::shared_ptr<CroppedImages> take();
    void keep(bool spare);

   private:
    std::mutex mutex_;
    bool keeps_ = false;
    std::unique_ptr<CroppedImages> spare_;
  };
  // A batch that is being filled.
  struct Slot {
    std::shared_ptr<CroppedImages> images;
    std::size_t first = 0;                   // of the pass's samples
    std::size_t begun = 0;                   // images that a thread has taken
    std::size_t missing = 0;                 // images that are not there yet
    std::map<std::size_t, std::string> bad;  // of those, which could not be read, and why
  };
  void work();
  void open_slots();
  // An image's place in its batch, and memory to decode it into.
  struct Place {
    float* pixels;
    std::int64_t& label;
    DecodedPart& part;
  };
  // `drawn_as`: the sample by whose number it is cropped.
  bool fill(const Pass& pass, std::uint32_t sample, std::uint32_t drawn_as, const Place& to,
            std::string& error) const;
  bool fill_or_replace(const Pass& pass, std::size_t position, const Place& to, std::string& bad,
                       std::string& error) const;
  void count_bad(Slot& slot);

  const std::shared_ptr<const ImageSource> source_;
  const PipelineOptions options_;
  const std::size_t image_floats_;
  const std::shared_ptr<Memory> memory_;

  std::mutex mutex_;
  std::condition_variable work_;   // there is something to do, or the end has come
  std::condition_variable ready_;  // a batch, or an error
  std::shared_ptr<const Pass> pass_;
  std::deque<std::shared_ptr<Slot>> slots_;  // in the order of the pass
  std::size_t next_batch_ = 0;               // without a slot yet
  std::size_t next_sample_ = 0;
  std::string error_;
  bool ending_ = false;
  Times times_;
  BadSamples bad_;
  std::vector<std::thread> threads_;
};

}  // namespace hvdrun
