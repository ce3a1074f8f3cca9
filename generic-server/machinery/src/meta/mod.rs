//! Metadata and the small languages of the API: group-version-kinds, selectors, quantities, times, names, errors.
