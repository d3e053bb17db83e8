#include "worker/labs/data/images/input_pipeline.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace hvdrun {
namespace {

// In a set with so many one after the other something else is wrong.
constexpr std::size_t kMaxBadInARow = 100;

}  // namespace

std::shared_ptr<CroppedImages> InputPipeline::Memory::take() {
  std::unique_ptr<CroppedImages> batch;
  {
    const std::lock_guard lock(mutex_);
    batch = std::move(spare_);
  }
  if (!batch) batch = std::make_unique<CroppedImages>();
  return {batch.release(), [memory = shared_from_this()](CroppedImages* done) {
            std::unique_ptr<CroppedImages> owned(done);
            const std::lock_guard lock(memory->mutex_);
            if (memory->keeps_ && !memory->spare_) memory->spare_ = std::move(owned);
          }};
}

void InputPipeline::Memory::keep(bool spare) {
  const std::lock_guard lock(mutex_);
  keeps_ = spare;
  if (!spare) spare_.reset();
}

InputPipeline::InputPipeline(std::shared_ptr<const ImageSource> source,
                             const PipelineOptions& options)
    : source_(std::move(source)),
      options_(options),
      image_floats_(3 * options.side * options.side),
      memory_(std::make_shared<Memory>()) {
  const std::size_t wanted = std::max<std::size_t>(1, options_.threads);
  threads_.reserve(wanted);
  while (threads_.size() < wanted) try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
      // No more threads, or no memory for one. Those that there are must not be left to the
      // destructor of `threads_`, which would end the program.
      if (threads_.empty()) throw;
      break;  // as many as there may be
    }
}

InputPipeline::~InputPipeline() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void InputPipeline::begin(Pass pass) {
  {
    const std::lock_guard lock(mutex_);
    memory_->keep(true);
    pass_ = std::make_shared<const Pass>(std::move(pass));
    // A thread may still be filling one of them; it holds it until then.
    slots_.clear();
    next_batch_ = 0;
    next_sample_ = 0;
    error_.clear();
    times_ = {};
    bad_ = {};
    open_slots();
  }
  work_.notify_all();
}

// With the mutex.
void InputPipeline::open_slots() {
  while (slots_.size() < std::max<std::size_t>(1, options_.batches_ahead) &&
         next_batch_ < pass_->batch_sizes.size()) {
    auto slot = std::make_shared<Slot>();
    const std::size_t count = pass_->batch_sizes[next_batch_++];
    slot->first = next_sample_;
    slot->missing = count;
    slot->images = memory_->take();
    slot->images->pixels.resize(count * image_floats_);
    slot->images->labels.resize(count);
    next_sample_ += count;
    slots_.push_back(std::move(slot));
  }
}

std::shared_ptr<CroppedImages> InputPipeline::next(std::string& error) {
  const auto begin = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  std::shared_ptr<Slot> slot;
  do {
    if (slots_.empty()) {
      memory_->keep(false);
      return nullptr;
    }
    slot = slots_.front();
    ready_.wait(lock, [&] { return slot->missing == 0 || !error_.empty(); });
    if (!error_.empty()) {
      error = error_;
      return nullptr;
    }
    slots_.pop_front();
    open_slots();
    work_.notify_all();
    count_bad(*slot);
  } while (slot->images->labels.empty());
  times_.waited += std::chrono::steady_clock::now() - begin;
  ++times_.batches;
  return slot->images;
}

// With the mutex: of a batch that is ready. What is left out leaves no gap.
void InputPipeline::count_bad(Slot& slot) {
  for (const auto& [place, why] : slot.bad) bad_.add(why);
  if (slot.bad.empty() || pass_->on_bad != OnBadSample::leave_out) return;
  CroppedImages& images = *slot.images;
  const auto floats = static_cast<std::ptrdiff_t>(image_floats_);
  std::size_t kept = 0;
  for (std::size_t place = 0; place < images.labels.size(); ++place) {
    if (slot.bad.count(place) > 0) continue;
    const auto from = images.pixels.begin() + static_cast<std::ptrdiff_t>(place) * floats;
    if (kept < place)
      std::copy(from, from + floats,
                images.pixels.begin() + static_cast<std::ptrdiff_t>(kept) * floats);
    images.labels[kept++] = images.labels[place];
  }
  images.labels.resize(kept);
  images.pixels.resize(kept * image_floats_);
}

void InputPipeline::work() {
  DecodedPart part;
  std::unique_lock lock(mutex_);
  for (;;) {
    std::shared_ptr<Slot> slot;
    work_.wait(lock, [&] {
      if (ending_) return true;
      if (!error_.empty()) return false;
      for (const auto& one : slots_) {
        if (one->begun == one->images->labels.size()) continue;
        slot = one;
        return true;
      }
      return false;
    });
    if (ending_) return;
    const std::size_t place = slot->begun++;
    const std::shared_ptr<const Pass> pass = pass_;
    lock.unlock();
    std::string bad;
    std::string error;
    bool good = false;
    try {
      const Place to{slot->images->pixels.data() + place * image_floats_,
                     slot->images->labels[place], part};
      good = fill_or_replace(*pass, slot->first + place, to, bad, error);
    } catch (const std::exception& trouble) {
      error = trouble.what();  // no memory
    }
    lock.lock();
    if (pass != pass_) continue;  // of a pass that has been dropped
    --slot->missing;
    if (!bad.empty()) slot->bad.emplace(place, std::move(bad));
    if (!good && error_.empty()) error_ = error.empty() ? "an image cannot be read" : error;
    if (!good || slot->missing == 0) ready_.notify_all();
  }
}

// In the place of one that cannot be read (`bad` says why) comes the next of the pass that can. It
// is cropped as the bad one would have been: it need not be the same picture twice. False, and
// `error` says why, where the pass cannot go on.
bool InputPipeline::fill_or_replace(const Pass& pass, std::size_t position, const Place& to,
                                    std::string& bad, std::string& error) const {
  const std::uint32_t sample = pass.samples[position];
  if (fill(pass, sample, sample, to, error)) return true;
  if (pass.on_bad == OnBadSample::stop) return false;
  bad = std::exchange(error, {});
  if (bad.empty()) bad = "an image cannot be read";
  if (pass.on_bad == OnBadSample::leave_out) return true;
  const std::size_t others = std::min(pass.samples.size() - 1, kMaxBadInARow);
  for (std::size_t i = 1; i <= others; ++i) {
    const std::uint32_t other = pass.samples[(position + i) % pass.samples.size()];
    if (fill(pass, other, sample, to, error)) return true;
  }
  error = bad + "; nor can " + std::to_string(others) + " more of this pass be read";
  return false;
}

bool InputPipeline::fill(const Pass& pass, std::uint32_t sample, std::uint32_t drawn_as,
                         const Place& to, std::string& error) const {
  error.clear();
  const std::optional<EncodedImage> encoded = source_->read(sample, error);
  if (!encoded) return false;
  const auto fail = [&] {
    error.insert(0, encoded->place + ": ");
    return false;
  };
  const std::optional<ImageSize> size = image_size(encoded->bytes, error);
  if (!size) return fail();
  Crop crop = middle_crop(*size);
  CropOptions options;
  options.side = options_.side;
  options.scaling = options_.scaling;
  if (pass.augment) {
    SplitMix random(SplitMix(pass.seed, ~pass.epoch).next(), drawn_as);
    crop = random_crop(*size, random);
    options.mirror = random.below(2) == 1;
    if (options_.changes_colours) options.colours = random_colours(random);
  }
  DecodedPart& part = to.part;
  // So small that the crop still has the result's size.
  DecodeOptions decode;
  decode.dct = options_.dct;
  const auto side = static_cast<double>(options_.side);
  const auto least = [&](std::size_t whole, double cropped) {
    return static_cast<std::size_t>(
        std::ceil(static_cast<double>(whole) * std::min(1.0, side / cropped)));
  };
  decode.least_rows = least(size->rows, crop.rows);
  decode.least_columns = least(size->columns, crop.columns);
  decode.window = window_of(crop);
  if (!decode_part(encoded->bytes, decode, part, error)) return fail();
  const double down = static_cast<double>(part.whole.rows) / static_cast<double>(size->rows);
  const double across =
      static_cast<double>(part.whole.columns) / static_cast<double>(size->columns);
  crop = {crop.top * down - static_cast<double>(part.top),
          crop.left * across - static_cast<double>(part.left), crop.rows * down,
          crop.columns * across};
  write_crop(part.image, crop, options, to.pixels);
  to.label = encoded->label;
  return true;
}

}  // namespace hvdrun
