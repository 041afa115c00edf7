-- Tables for the samples of gperf's recordings. A row of samples is a stack and minute, or a sample.

CREATE TABLE IF NOT EXISTS samples
(
    time           DateTime('UTC'), -- the beginning of the minute
    time_ns        Int64,  -- of the sample or of the minute, in ns since 1970
    time_estimated UInt8,  -- the recording does not say the time of day
    host           String,
    service        String,
    event          String,
    unit           String, -- of weight: nanoseconds, bytes or count
    comm           String,
    pid            Int32,
    tid            Int32,  -- -1: several or unknown, as for cpu
    cpu            Int32,
    cgroup         String,
    container      String,
    pod            String,
    samples        UInt64,
    weight         Int64,
    stack          UInt64, -- stacks.id
    fields         Nested (name String, value String), -- of the tracepoint
    labels         Nested (name String, value String), -- of gperf push --label
    recording      String, -- and the number of the row in it: equal rows are one after a merge
    number         UInt64
)
ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(time) ORDER BY (event, host, time, recording, number);

CREATE TABLE IF NOT EXISTS stacks
(
    id     UInt64,
    frames Array(UInt64) -- frames.id, the innermost first
)
ENGINE = ReplacingMergeTree ORDER BY id;

CREATE TABLE IF NOT EXISTS frames
(
    id       UInt64,
    function String,
    file     String, -- '' and 0: unknown
    line     Int32,
    dso      String,
    build_id String,
    kind     String  -- kernel, user, jit, inlined or unknown
)
ENGINE = ReplacingMergeTree ORDER BY id;

-- The innermost frame of each stack: FROM samples ANY LEFT JOIN leaves USING stack

CREATE VIEW IF NOT EXISTS leaves AS
SELECT stack, function, file, line, dso, build_id, kind
FROM (SELECT id AS stack, frames[1] AS frame FROM stacks)
ANY LEFT JOIN (SELECT id AS frame, function, file, line, dso, build_id, kind FROM frames) USING frame;

-- All frames of each stack, depth 1 is the innermost. Both tables can have equal rows until they are merged.

CREATE VIEW IF NOT EXISTS stack_frames AS
SELECT DISTINCT stack, depth, function, file, line, dso, build_id, kind
FROM (SELECT id AS stack, frame, depth FROM stacks ARRAY JOIN frames AS frame, arrayEnumerate(frames) AS depth)
ANY LEFT JOIN (SELECT id AS frame, function, file, line, dso, build_id, kind FROM frames) USING frame;
