// Tidy for C++: an allocator for containers, and owners of single objects. See tidy.h.
//
//   tidy::context mesh({64, 64});
//   std::list<node, tidy::allocator<node>> strip(mesh.hinted<node>({3, 5}));
//   auto node = tidy::make_unique<::node>(mesh, {3, 5}, x, y);
#ifndef TIDY_HPP
#define TIDY_HPP

#include "tidy.h"

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tidy {

// Dimensions of a context at most.
constexpr std::size_t max_dimensions = 16;

// Values of a hint: one for each dimension of its context.
class hint {
public:
    hint(std::initializer_list<std::size_t> values)
    {
        if (values.size() > max_dimensions)
            throw std::length_error("tidy: a hint of more than 16 values");
        for (std::size_t value : values)
            values_[count_++] = value;
    }
    const std::size_t *data() const noexcept { return values_.data(); }
    std::size_t size() const noexcept { return count_; }
    friend bool operator==(const hint &a, const hint &b) noexcept { return a.values_ == b.values_ && a.count_ == b.count_; }

private:
    std::array<std::size_t, max_dimensions> values_{};
    std::size_t count_ = 0;
};

class context;

// An allocator of one hint. Copies free what others allocated where both are of one context.
template <class T> class allocator {
public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    allocator(tidy_context *context, const tidy::hint &hint) noexcept : context_(context), hint_(hint) {}
    template <class U> allocator(const allocator<U> &other) noexcept : context_(other.raw()), hint_(other.own_hint()) {}

    T *allocate(std::size_t count)
    {
        if (count > static_cast<std::size_t>(-1) / sizeof(T))
            throw std::bad_array_new_length();
        void *memory = tidy_aligned_alloc(context_, alignof(T), count * sizeof(T), hint_.data());
        if (!memory)
            throw std::bad_alloc();
        return static_cast<T *>(memory);
    }
    void deallocate(T *memory, std::size_t) noexcept { tidy_free(context_, memory); }

    tidy_context *raw() const noexcept { return context_; }
    const tidy::hint &own_hint() const noexcept { return hint_; }
    template <class U> bool operator==(const allocator<U> &other) const noexcept { return context_ == other.raw(); }
    template <class U> bool operator!=(const allocator<U> &other) const noexcept { return context_ != other.raw(); }

private:
    tidy_context *context_;
    tidy::hint hint_;
};

// Owns a context. It must outlive what is allocated in it.
class context {
public:
    explicit context(std::initializer_list<std::size_t> sizes)
        : context_(tidy_create(sizes.size(), sizes.begin())), dimensions_(sizes.size())
    {
        if (!context_)
            throw std::invalid_argument("tidy: no context of such dimensions");
    }
    context(const context &) = delete;
    context &operator=(const context &) = delete;
    ~context() { tidy_destroy(context_); }

    template <class T> allocator<T> hinted(const hint &of) const
    {
        check(of);
        return allocator<T>(context_, of);
    }
    tidy_statistics statistics() const
    {
        tidy_statistics found;
        tidy_stats(context_, &found);
        return found;
    }
    void check(const hint &of) const
    {
        if (of.size() != dimensions_)
            throw std::invalid_argument("tidy: a hint of other dimensions than its context's");
    }
    tidy_context *raw() const noexcept { return context_; }

private:
    tidy_context *context_;
    std::size_t dimensions_;
};

// Frees what `make_unique` made.
template <class T> struct deleter {
    tidy_context *of;
    void operator()(T *object) const noexcept
    {
        object->~T();
        tidy_free(of, object);
    }
};

// An object of that hint, with its owner.
template <class T, class... Arguments>
std::unique_ptr<T, deleter<T>> make_unique(const context &of, const hint &at, Arguments &&...arguments)
{
    of.check(at);
    void *memory = tidy_aligned_alloc(of.raw(), alignof(T), sizeof(T), at.data());
    if (!memory)
        throw std::bad_alloc();
    try {
        return {new (memory) T(std::forward<Arguments>(arguments)...), deleter<T>{of.raw()}};
    } catch (...) {
        tidy_free(of.raw(), memory);
        throw;
    }
}

} // namespace tidy

#endif
