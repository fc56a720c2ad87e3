/* Keeps the library non-empty until a helper needs a source of its own. */
typedef int unit_support_empty;
