/* An agent as small as can be: listens to the program's own memory and reads its records.
 * The numbers of the layout come from the compiler's command line, which the test takes from the one definition. */

#ifndef LISTENER_H_INCLUDED
#define LISTENER_H_INCLUDED

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            _exit(1);                                                                      \
        }                                                                                  \
    } while (0)

struct record {
    uint64_t time_ns;
    uint16_t kind;
    uint8_t flags, slots;
    uint32_t task;
    uint64_t a, b;
    uint64_t payload[8][4];
};

static uint64_t *head;
static int memory_descriptor = -1;

/* The descriptor of this process's memory with the highest number, or -1. */
static int find_memory(void)
{
    int found = -1;
    for (int descriptor = 0; descriptor < 128; descriptor++) {
        char link[64], target[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        ssize_t length = readlink(link, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            if (strncmp(target, "/memfd:weir-arm", 15) == 0) found = descriptor;
        }
    }
    return found;
}

static uint64_t word(int index)
{
    return __atomic_load_n(&head[index], __ATOMIC_ACQUIRE);
}

static uint64_t *position(int lane, int index)
{
    return &head[POSITIONS_AT / 8 + lane * POSITION_WORDS + index];
}

/* Maps the memory that the program has by now, as an agent does. */
static void attach(void)
{
    memory_descriptor = find_memory();
    CHECK(memory_descriptor >= 0);
    struct stat status;
    CHECK(fstat(memory_descriptor, &status) == 0 && status.st_size == MEMORY_BYTES);
    int seals = fcntl(memory_descriptor, F_GET_SEALS);
    CHECK((seals & (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)) == (F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW));
    head = mmap(NULL, LANES_AT, PROT_READ | PROT_WRITE, MAP_SHARED, memory_descriptor, 0);
    CHECK(head != MAP_FAILED);
    CHECK(word(HEAD_MAGIC) == MAGIC);
    CHECK(word(HEAD_PID) == (uint64_t)getpid());
}

/* From now on, or no longer, an agent listens. */
__attribute__((unused)) static void listen_now(int whether)
{
    __atomic_store_n(&head[HEAD_HEARTBEAT], (uint64_t)whether, __ATOMIC_RELEASE);
}

__attribute__((unused)) static void set_switch(int number, uint32_t value)
{
    __atomic_store_n((uint32_t *)((char *)head + SWITCHES_AT) + number, value, __ATOMIC_RELEASE);
}

static void slot_at(int lane, uint64_t slot, void *to)
{
    off_t at = LANES_AT + (off_t)lane * LANE_SLOTS * 32 + (off_t)(slot % LANE_SLOTS) * 32;
    ssize_t got;
    do got = pread(memory_descriptor, to, 32, at);
    while (got == -1 && errno == EINTR);
    CHECK(got == 32);
}

/* What was told in pieces behind each other, and has not been taken yet; and the end that it came with. */
static struct record packed;
static int packed_at, has_packed;

/* Takes the next piece as if it were a detail by itself, and then the end that brought it; 0 = there is none. */
static int take_piece(struct record *record)
{
    const uint8_t *bytes = (const uint8_t *)packed.payload;
    uint16_t length;
    if (!has_packed) return 0;
    *record = packed;
    record->slots = 0;
    memset(record->payload, 0, sizeof record->payload);
    if (packed_at + 4 > packed.slots * 32 || !bytes[packed_at]) {
        has_packed = 0;
        return packed.kind == ARM_STOP;
    }
    memcpy(&length, bytes + packed_at + 2, sizeof length);
    CHECK(packed_at + 4 + length <= packed.slots * 32);
    record->kind = ARM_DETAIL;
    record->b = bytes[packed_at] | (uint64_t)bytes[packed_at + 1] << 8 | (uint64_t)length << 32;
    memcpy(record->payload, bytes + packed_at + 4, length);
    if (bytes[packed_at] == FIELD_METRIC_NUMBER) {
        uint8_t *value = (uint8_t *)record->payload;
        CHECK(length >= 2 && length <= 10);
        memmove(value + 8, value + 2, 8);
        memset(value + 6 + length, 0, 10 - length);
        memcpy(value + 2, "\1\0\0\0\0", 6);
        record->b = FIELD_METRIC_VALUE | (uint64_t)bytes[packed_at + 1] << 8 | (uint64_t)16 << 32;
    }
    packed_at += 4 + length;
    return 1;
}

/* Takes the next record of a lane; 0 = there is none. Pieces that came together are taken one by one. */
static int take_of(int lane, struct record *record)
{
    if (take_piece(record)) return 1;
    uint64_t read = *position(lane, LANE_READ);
    uint64_t written = __atomic_load_n(position(lane, LANE_WRITTEN), __ATOMIC_ACQUIRE);
    if (read == written) return 0;
    CHECK(written - read <= LANE_SLOTS);
    memset(record, 0, sizeof *record);
    slot_at(lane, read, record);
    CHECK(record->slots <= 8 && read + 1 + record->slots <= written);
    for (int slot = 0; slot < record->slots; slot++) slot_at(lane, read + 1 + slot, record->payload[slot]);
    __atomic_store_n(position(lane, LANE_READ), read + 1 + record->slots, __ATOMIC_RELEASE);
    if (record->kind == ARM_PIECES || (record->kind == ARM_STOP && record->slots)) {
        packed = *record;
        packed_at = 0;
        has_packed = 1;
        return take_piece(record);
    }
    return 1;
}

/* Takes the next record of any lane; 0 = there is none. */
static int take(struct record *record)
{
    int used = (int)word(HEAD_LANES_USED);
    CHECK(used <= LANES);
    for (int lane = 0; lane < used; lane++)
        if (take_of(lane, record)) return 1;
    return 0;
}

/* Takes the next record, which must be of this kind. */
__attribute__((unused)) static struct record expect(int kind)
{
    struct record record;
    CHECK(take(&record));
    if (record.kind != kind) fprintf(stderr, "kind %#x in place of %#x\n", record.kind, kind);
    CHECK(record.kind == kind);
    return record;
}

/* The next record is a detail; its field, and whether its bytes are these. */
__attribute__((unused)) static void expect_detail(uint64_t handle, int field, int index, const void *bytes, size_t length)
{
    struct record record = expect(ARM_DETAIL);
    if ((int)(record.b & 255) != field) fprintf(stderr, "field %d in place of %d\n", (int)(record.b & 255), field);
    CHECK(record.a == handle);
    CHECK((int)(record.b & 255) == field && (int)(record.b >> 8 & 255) == index);
    CHECK(record.b >> 32 == length && (record.b >> 16 & 0xffff) == 0);
    CHECK(length <= 256 && memcmp(record.payload, bytes, length) == 0);
}

__attribute__((unused)) static uint64_t sum_of(int index)
{
    uint64_t sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += __atomic_load_n(position(lane, index), __ATOMIC_RELAXED);
    return sum;
}

/* All that is waiting is read and forgotten; gives how many records of a kind it was. */
__attribute__((unused)) static uint64_t drain(int kind)
{
    struct record record;
    uint64_t count = 0;
    while (take(&record)) count += record.kind == kind;
    return count;
}

/* Makes room while other threads write on. */
__attribute__((unused)) static void forget_all(void)
{
    for (int lane = 0; lane < LANES; lane++)
        __atomic_store_n(
            position(lane, LANE_READ), __atomic_load_n(position(lane, LANE_WRITTEN), __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

#endif
