"""The pages: each makes a document of a picture, for somebody who looks, at an address."""
