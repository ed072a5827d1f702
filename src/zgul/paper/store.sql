-- The tables of a store of results.
-- The columns of runs and scores are in the order of the fields of StoredRun and Score.
CREATE TABLE IF NOT EXISTS runs (
    hash TEXT PRIMARY KEY, part TEXT, grp TEXT, method TEXT, seed INTEGER, name TEXT, config TEXT, extra TEXT,
    status TEXT, error TEXT, started REAL, seconds REAL, facts TEXT
);
CREATE TABLE IF NOT EXISTS scores (
    run TEXT, row TEXT, language TEXT, f1 REAL, accuracy REAL, precision REAL, recall REAL, per_class TEXT,
    sentences INTEGER, words INTEGER, correct INTEGER, seconds REAL, em TEXT, PRIMARY KEY (run, row, language)
);
CREATE TABLE IF NOT EXISTS predictions (
    run TEXT, row TEXT, language TEXT, tags BLOB, PRIMARY KEY (run, row, language)
);
CREATE TABLE IF NOT EXISTS gold (grp TEXT, language TEXT, sentences BLOB, PRIMARY KEY (grp, language));
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT);
