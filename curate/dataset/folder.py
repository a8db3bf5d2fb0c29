"""The name by which other packages still import Dataset."""

from curate.dataset.dataset import Dataset

DatasetFolder = Dataset
